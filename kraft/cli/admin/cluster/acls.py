"""`kraft acls`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from kraft.admin import acls
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout, Yes, confirm
from kraft.cli.admin.output import Table, say, show, warn
from kraft.cli.admin.running import NOT_FOUND, ask
from kraft.security.acls import (
    ANY,
    CLUSTER_NAME,
    KIND_NAMES,
    OPERATION_NAMES,
    PATTERN_NAMES,
    PERMISSION_NAMES,
    UNKNOWN,
    WILDCARD,
    AccessControlEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceKind,
)

app = typer.Typer(
    help="Access control lists: add, list and remove the permissions of principals.",
    no_args_is_help=True,
    add_completion=False,
)


Names = list[str] | None
Topics = Annotated[Names, typer.Option("--topic", metavar="NAME", help="Topic NAME; * for all topics.")]
Groups = Annotated[Names, typer.Option("--group", metavar="NAME", help="Group NAME; * for all groups.")]
TransactionalIds = Annotated[
    Names, typer.Option("--transactional-id", metavar="NAME", help="Transactional id NAME; * for all.")
]
Tokens = Annotated[Names, typer.Option("--delegation-token", metavar="ID", help="Delegation token ID; * for all.")]
Users = Annotated[
    Names,
    typer.Option(
        "--user-principal",
        metavar="USER",
        help="Tokens of this principal, such as User:alice (for CreateTokens and DescribeTokens).",
    ),
]
OnCluster = Annotated[bool, typer.Option("--cluster", help="The cluster resource.")]
Pattern = Annotated[
    str,
    typer.Option(
        "--resource-pattern-type",
        metavar="TYPE",
        help=(
            "literal; prefixed: every name that begins with NAME. list and remove also accept any, and match: "
            "every entry that applies to the name."
        ),
    ),
]
Principals = Annotated[
    Names, typer.Option("--principal", metavar="USER", help="Only entries of this principal, such as User:alice.")
]
Allowed = Annotated[
    Names,
    typer.Option(
        "--allow-principal", metavar="USER", help="Principal to allow, such as User:alice; User:* is everybody."
    ),
]
Denied = Annotated[Names, typer.Option("--deny-principal", metavar="USER", help="Principal to deny.")]
AllowedHosts = Annotated[
    Names,
    typer.Option(
        "--allow-host", metavar="ADDRESS", help="Client address of the allowed principal. (default: every address)"
    ),
]
DeniedHosts = Annotated[
    Names,
    typer.Option(
        "--deny-host", metavar="ADDRESS", help="Client address of the denied principal. (default: every address)"
    ),
]
Operations = Annotated[
    Names, typer.Option("--operation", metavar="NAME", help="Read, Write, Create, Describe, ... (default: All)")
]
Producer = Annotated[
    bool,
    typer.Option(
        "--producer", help="The permissions of a producer: Write, Describe and Create on topics and transactional ids."
    ),
]
Consumer = Annotated[
    bool,
    typer.Option("--consumer", help="The permissions of a consumer: Read and Describe on topics, Read on groups."),
]

Resource = tuple[int, str]
RESOURCE_OPTIONS = "--topic, --group, --transactional-id, --cluster, --delegation-token or --user-principal"


def _word(name: str) -> str:
    """The spelling of Kafka's tool: DESCRIBE_CONFIGS is DescribeConfigs."""
    return name.title().replace("_", "")


def _one_of(text: str, names: dict[int, str], option: str, *, but: Sequence[int] = (UNKNOWN,)) -> int:
    """The id of the operation, pattern type or other value that `text` names. Raises typer.BadParameter (exit 2)."""
    found = {_word(name).lower(): value for value, name in names.items() if value not in but}
    value = found.get(text.replace("_", "").lower())
    if value is None:
        known = ", ".join(_word(name) for each, name in names.items() if each not in but)
        raise typer.BadParameter(f"{text!r} is not one of {known}", param_hint=option)
    return value


def _resources(
    topics: Names, groups: Names, transactional_ids: Names, on_cluster: bool, tokens: Names, users: Names
) -> list[Resource]:
    """The resources of the options. Raises typer.BadParameter (exit 2)."""
    named = (
        (ResourceKind.TOPIC, topics),
        (ResourceKind.GROUP, groups),
        (ResourceKind.TRANSACTIONAL_ID, transactional_ids),
        (ResourceKind.CLUSTER, [CLUSTER_NAME] if on_cluster else ()),
        (ResourceKind.DELEGATION_TOKEN, tokens),
        (ResourceKind.USER, _owners(users)),
    )
    return [(kind, name) for kind, names in named for name in names or ()]


def _principals(names: Names) -> list[str]:
    for name in names or ():
        if ":" not in name:
            raise typer.BadParameter(f"{name!r} is not a principal; write User:{name}")
    return list(names or ())


def _owners(names: Names) -> list[str]:
    """The principals whose tokens are selected; `*` selects every principal's. Raises typer.BadParameter (exit 2)."""
    _principals([name for name in names or () if name != WILDCARD])
    return list(names or ())


def _needed(kind: int, producer: bool, consumer: bool, operations: Names) -> list[int]:
    """The operations on a resource of `kind` that the options request."""
    if not producer and not consumer:
        return [_one_of(text, OPERATION_NAMES, "--operation", but=(UNKNOWN, ANY)) for text in operations or ("All",)]
    if operations:
        raise typer.BadParameter("--producer and --consumer choose the operations; leave out --operation")
    found: list[int] = []
    if producer and kind == ResourceKind.TOPIC:
        found += [Operation.WRITE, Operation.DESCRIBE, Operation.CREATE]
    if producer and kind == ResourceKind.TRANSACTIONAL_ID:
        found += [Operation.WRITE, Operation.DESCRIBE]
    if consumer and kind == ResourceKind.TOPIC:
        found += [Operation.READ, Operation.DESCRIBE]
    if consumer and kind == ResourceKind.GROUP:
        found += [Operation.READ]
    return list(dict.fromkeys(found))


def _entries(
    resources: list[Resource],
    pattern: int,
    operations: dict[int, list[int]],
    allowed: tuple[list[str], Names],
    denied: tuple[list[str], Names],
) -> list[AccessControlEntry]:
    """One entry for each combination of resource, permission, principal, host and operation."""
    return [
        AccessControlEntry(kind, name, pattern, principal, host, operation, permission)
        for kind, name in resources
        for permission, (principals, hosts) in ((Permission.ALLOW, allowed), (Permission.DENY, denied))
        for principal in principals
        for host in hosts or (WILDCARD,)
        for operation in operations[kind]
    ]


def _table(entries: Iterable[AccessControlEntry]) -> Table:
    columns = ("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION")
    return Table(columns, [tuple(_document(entry).values()) for entry in entries])


def _document(entry: AccessControlEntry) -> dict[str, Any]:
    """The entry in the words of Kafka's REST API."""
    return {
        "resource_type": KIND_NAMES.get(entry.resource_type, KIND_NAMES[UNKNOWN]),
        "resource_name": entry.resource_name,
        "pattern_type": PATTERN_NAMES.get(entry.pattern_type, PATTERN_NAMES[UNKNOWN]),
        "principal": entry.principal,
        "host": entry.host,
        "operation": OPERATION_NAMES.get(entry.operation, OPERATION_NAMES[UNKNOWN]),
        "permission": PERMISSION_NAMES.get(entry.permission_type, PERMISSION_NAMES[UNKNOWN]),
    }


@app.command("list", epilog="Example: kraft acls list --topic orders --resource-pattern-type match")
def list_acls(
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    on_cluster: OnCluster = False,
    tokens: Tokens = None,
    users: Users = None,
    pattern_type: Pattern = "literal",
    principals: Principals = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show all entries, or those of some resources or principals."""
    resources = _resources(topics, groups, transactional_ids, on_cluster, tokens, users)
    pattern = _one_of(pattern_type, PATTERN_NAMES, "--resource-pattern-type")
    wanted = [
        AclFilter(kind, name, pattern if resources else ANY, principal, None, ANY, ANY)
        for kind, name in (*resources, *(() if resources else ((ANY, None),)))
        for principal in _principals(principals) or (None,)
    ]

    async def find(cluster: Any) -> list[AccessControlEntry]:
        return sorted({entry for each in wanted for entry in await acls.describe_acls(cluster, each)})

    found = ask(bootstrap, timeout, find)
    show({"acls": [_document(entry) for entry in found]}, [_table(found)], output)


@app.command("add", epilog="Example: kraft acls add --allow-principal User:alice --operation Read --topic orders")
def add_acls(
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    on_cluster: OnCluster = False,
    tokens: Tokens = None,
    users: Users = None,
    pattern_type: Pattern = "literal",
    allowed: Allowed = None,
    allowed_hosts: AllowedHosts = None,
    denied: Denied = None,
    denied_hosts: DeniedHosts = None,
    operations: Operations = None,
    producer: Producer = False,
    consumer: Consumer = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Allow or deny operations to principals. Existing entries stay as they are."""
    resources = _resources(topics, groups, transactional_ids, on_cluster, tokens, users)
    pattern = _one_of(pattern_type, PATTERN_NAMES, "--resource-pattern-type", but=(UNKNOWN, ANY, PatternType.MATCH))
    by_kind = {kind: _needed(kind, producer, consumer, operations) for kind, _ in resources}
    entries = _entries(
        resources, pattern, by_kind, (_principals(allowed), allowed_hosts), (_principals(denied), denied_hosts)
    )
    if not resources:
        raise typer.BadParameter(f"no resource is given: give {RESOURCE_OPTIONS}")
    if not allowed and not denied:
        raise typer.BadParameter("no principal is given: give --allow-principal or --deny-principal")
    if not entries:
        raise typer.BadParameter("a producer needs --topic or --transactional-id, a consumer --topic and --group")
    ask(bootstrap, timeout, lambda cluster: acls.create_acls(cluster, entries))
    say({"acls": [_document(entry) for entry in entries]}, f"added: {_told(entries)}", output)


@app.command("remove", epilog="Example: kraft acls remove --allow-principal User:alice --operation Read --topic orders")
def remove_acls(
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    on_cluster: OnCluster = False,
    tokens: Tokens = None,
    users: Users = None,
    pattern_type: Pattern = "literal",
    allowed: Allowed = None,
    allowed_hosts: AllowedHosts = None,
    denied: Denied = None,
    denied_hosts: DeniedHosts = None,
    operations: Operations = None,
    producer: Producer = False,
    consumer: Consumer = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Remove entries: those with the given options, or without a principal all entries of the resources."""
    resources = _resources(topics, groups, transactional_ids, on_cluster, tokens, users)
    pattern = _one_of(pattern_type, PATTERN_NAMES, "--resource-pattern-type")
    if not resources:
        raise typer.BadParameter(f"no resource is given: give {RESOURCE_OPTIONS}")
    filters: list[AclFilter]
    if allowed or denied:
        by_kind = {kind: _needed(kind, producer, consumer, operations) for kind, _ in resources}
        sides = (_principals(allowed), allowed_hosts), (_principals(denied), denied_hosts)
        filters = [AclFilter(*entry) for entry in _entries(resources, pattern, by_kind, *sides)]
        if not filters:
            raise typer.BadParameter("a producer needs --topic or --transactional-id, a consumer --topic and --group")
    elif allowed_hosts or denied_hosts or operations or producer or consumer:
        raise typer.BadParameter(
            "no principal is given: give --allow-principal or --deny-principal, or the resources alone"
        )
    else:
        filters = [AclFilter(kind, name, pattern, None, None, ANY, ANY) for kind, name in resources]
    confirm(f"Remove {'the entries' if allowed or denied else 'all entries'} of {_told_resources(resources)}?", yes)
    removed = ask(bootstrap, timeout, lambda cluster: acls.delete_acls(cluster, filters))
    if not removed:
        warn("there is no such entry")
        raise typer.Exit(NOT_FOUND)
    say({"acls": [_document(entry) for entry in removed]}, f"removed: {_told(removed)}", output)


def _told_resources(resources: list[Resource]) -> str:
    words = (f"{KIND_NAMES[kind].lower().replace('_', ' ')} {name}" for kind, name in resources)
    return ", ".join(words)


def _told(entries: Sequence[AccessControlEntry]) -> str:
    """The entries in words: `User:alice may Read topic orders`."""
    return "; ".join(
        f"{entry.principal} {'may' if entry.permission_type == Permission.ALLOW else 'must not'} "
        f"{_word(OPERATION_NAMES[entry.operation])} {_told_resources([(entry.resource_type, entry.resource_name)])}"
        + ("*" if entry.pattern_type == PatternType.PREFIXED else "")
        + ("" if entry.host == WILDCARD else f" from {entry.host}")
        for entry in entries
    )
