"""`kraft quotas`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from kraft.admin import quotas
from kraft.admin.quotas import Entity, Quotas
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, DryRun, Output, Timeout, parse_pairs
from kraft.cli.admin.output import Table, say, show
from kraft.cli.admin.running import ask
from kraft.metadata.quota_keys import ADDRESS_KEYS, CLIENT_ID, CLIENT_KEYS, IP, USER

app = typer.Typer(
    help="Quotas of users, client ids and IP addresses.",
    no_args_is_help=True,
    add_completion=False,
)

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="Quota of this user.")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="NAME", help="Quota of this client id.")]
Address = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="Quota of this IP address.")]
UserDefault = Annotated[bool, typer.Option("--user-default", help="Quota of each user without a quota by name.")]
ClientIdDefault = Annotated[
    bool, typer.Option("--client-id-default", help="Quota of each client id without a quota by name.")
]
AddressDefault = Annotated[bool, typer.Option("--ip-default", help="Quota of each IP address without a quota by name.")]

KEYS = ", ".join((*CLIENT_KEYS, *ADDRESS_KEYS))


def entity_of(
    user: str | None, user_default: bool, client_id: str | None, client_default: bool, ip: str | None, ip_default: bool
) -> Entity:
    """The entity of the options. Raises typer.BadParameter (exit 2)."""
    entity: dict[str, str | None] = {}
    for kind, name, is_default in (
        (USER, user, user_default),
        (CLIENT_ID, client_id, client_default),
        (IP, ip, ip_default),
    ):
        if name is not None and is_default:
            raise typer.BadParameter(f"--{kind} names one, --{kind}-default means all others: give one of them")
        if name == "":
            raise typer.BadParameter(f"--{kind} needs a name; --{kind}-default means all that have none of their own")
        if name is not None or is_default:
            entity[kind] = name
    if IP in entity and len(entity) > 1:
        raise typer.BadParameter("addresses have quotas of their own, not together with users or client ids")
    return entity


def words_of(entity: Entity) -> str:
    """An entity in words: `user alice, any other client id`."""
    words = {USER: "user", CLIENT_ID: "client id", IP: "address"}
    return ", ".join(
        f"any other {words[kind]}" if name is None else f"{words.get(kind, kind)} {name}"
        for kind, name in sorted(entity.items(), key=lambda part: part[0] != USER)
    )


def number(limit: float) -> str:
    """A limit as people write it: 1048576, 12.5."""
    return str(int(limit)) if limit.is_integer() else str(limit)


@app.command("list", epilog="Example: kraft quotas list --user alice")
def list_quotas(
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_id_default: ClientIdDefault = False,
    ip: Address = None,
    ip_default: AddressDefault = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show all quotas, or those of a user, client id or address."""
    entity = entity_of(user, user_default, client_id, client_id_default, ip, ip_default)
    found = ask(bootstrap, timeout, lambda cluster: quotas.describe_quotas(cluster, entity))
    rows = [(words_of(each.entity), key, number(limit)) for each in found for key, limit in each.limits.items()]
    show({"quotas": [_document(each) for each in found]}, [Table(("WHO", "KEY", "LIMIT"), rows)], output)


def _document(each: Quotas) -> dict[str, Any]:
    return {"entity": dict(each.entity), "limits": dict(each.limits)}


@app.command("set", epilog="Example: kraft quotas set producer_byte_rate=1048576 --client-id reports")
def set_limits(
    pairs: Annotated[list[str], typer.Argument(metavar="KEY=LIMIT...", help=f"{KEYS}.", show_default=False)],
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_id_default: ClientIdDefault = False,
    ip: Address = None,
    ip_default: AddressDefault = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Set limits of a user, a client id, both together, or an address: all of them, or none."""
    entity = entity_of(user, user_default, client_id, client_id_default, ip, ip_default)
    limits: dict[str, float | None] = {}
    for key, text in parse_pairs(pairs, "KEY=LIMIT").items():
        try:
            limits[key] = float(text)
        except ValueError as problem:
            raise typer.BadParameter(f"{key}: {text!r} is not a number") from problem
    _alter(entity, limits, dry_run, bootstrap, output, timeout)


@app.command("delete", epilog="Example: kraft quotas delete producer_byte_rate --client-id reports")
def delete_limits(
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help=f"{KEYS}.", show_default=False)],
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_id_default: ClientIdDefault = False,
    ip: Address = None,
    ip_default: AddressDefault = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Remove limits. A less specific quota applies then, or none."""
    entity = entity_of(user, user_default, client_id, client_id_default, ip, ip_default)
    _alter(entity, dict.fromkeys(keys), dry_run, bootstrap, output, timeout)


def _alter(
    entity: Entity, changes: dict[str, float | None], dry_run: bool, bootstrap: str, output: Output, timeout: float
) -> None:
    if not entity:
        raise typer.BadParameter(
            "no entity is given: give --user, --client-id or --ip, or one of --user-default and the like"
        )
    if not changes:
        raise typer.BadParameter(f"nothing to change; the keys are {KEYS}")
    _check_keys(entity, changes)
    ask(bootstrap, timeout, lambda cluster: quotas.alter_quotas(cluster, entity, changes, validate_only=dry_run))
    is_deletion = None in changes.values()
    verb = "valid" if dry_run else "deleted" if is_deletion else "set"
    words = ", ".join(key if limit is None else f"{key}={number(limit)}" for key, limit in changes.items())
    document = {"entity": dict(entity), "limits": changes, "dry_run": dry_run}
    say(document, f"{verb} for {words_of(entity)}: {words}", output)


def _check_keys(entity: Entity, keys: Iterable[str]) -> None:
    known = ADDRESS_KEYS if IP in entity else CLIENT_KEYS
    for key in keys:
        if key not in known:
            raise typer.BadParameter(f"{key!r} is not a quota of {words_of(entity)}; its quotas are {', '.join(known)}")
