"""`kraft configs`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kraft.admin import configs, topics
from kraft.admin.configs import Resource, Setting
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, DryRun, Output, Timeout, parse_pairs
from kraft.cli.admin.output import Table, say, show
from kraft.cli.admin.running import NotFound, ask
from kraft.common.errors import ApiError
from kraft.rpc_client.cluster import Cluster

app = typer.Typer(
    help="Show and change configuration of topics, brokers, the cluster and groups.",
    no_args_is_help=True,
    add_completion=False,
)

KINDS = {
    "topic": configs.TOPIC,
    "topics": configs.TOPIC,
    "broker": configs.BROKER,
    "brokers": configs.BROKER,
    "cluster": configs.BROKER,
    "group": configs.GROUP,
    "groups": configs.GROUP,
    "client-metrics": configs.CLIENT_METRICS,
}
WHAT = "topic NAME, broker ID, cluster, group NAME, or client-metrics NAME"

Words = Annotated[
    list[str], typer.Argument(metavar="KIND [NAME]", help=f"What is configured: {WHAT}.", show_default=False)
]


def split_words(words: list[str]) -> tuple[Resource, list[str]]:
    """Split `KIND [NAME] REST...`; only the cluster has no name. Raises typer.BadParameter (exit 2)."""
    kind = KINDS.get(words[0].lower())
    if kind is None:
        raise typer.BadParameter(f"{words[0]!r} is not one of {WHAT}")
    if words[0].lower() == "cluster":
        return Resource(kind, ""), words[1:]
    if len(words) < 2 or not words[1]:
        raise typer.BadParameter(f"{words[0]} needs a name")
    if kind == configs.BROKER and not words[1].isdigit():
        raise typer.BadParameter(f"{words[1]!r} is not the id of a broker")
    return Resource(kind, words[1]), words[2:]


@app.command(epilog="Example: kraft configs describe topic flights --key retention.ms")
def describe(
    words: Words,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show keys with default values, too.")] = False,
    key: Annotated[list[str], typer.Option("--key", "-k", metavar="KEY", help="Show only this key. Repeatable.")] = [],  # noqa: B006 - only read.
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show configuration: values that differ from the defaults, all values, or some keys."""
    resource, rest = split_words(words)
    if rest:
        raise typer.BadParameter(f"{rest[0]!r} is not expected here; --key KEY chooses keys")

    async def question(cluster: Cluster) -> list[Setting]:
        await _expect(cluster, resource)
        return await configs.describe_configs(cluster, resource, key or None)

    settings = [setting for setting in ask(bootstrap, timeout, question) if everything or key or not setting.is_default]
    rows = [
        (
            each.name,
            "(hidden)" if each.sensitive else each.value,
            each.source,
            each.type,
            "read-only" if each.read_only else "",
        )
        for each in settings
    ]
    show(_document(resource, settings), [Table(("KEY", "VALUE", "FROM", "TYPE", "NOTE"), rows)], output)


async def _expect(cluster: Cluster, resource: Resource) -> None:
    """Raises ApiError or NotFound if the topic or broker does not exist, which Kafka's own responses do not always
    show."""
    if resource.kind == configs.TOPIC:
        await topics.describe_topics(cluster, [resource.name])
    elif resource.node_id is not None:
        known = await cluster.retrying(cluster.broker_ids)
        if resource.node_id not in known:
            raise NotFound(f"there is no live broker {resource.node_id}", f"there are {', '.join(map(str, known))}")


def _document(resource: Resource, settings: list[Setting]) -> dict[str, Any]:
    return {
        "resource": resource_document(resource),
        "configs": [
            {
                "name": each.name,
                "value": each.value,
                "source": each.source,
                "type": each.type,
                "read_only": each.read_only,
                "sensitive": each.sensitive,
                "synonyms": [{"name": name, "value": value, "source": source} for name, value, source in each.synonyms],
            }
            for each in settings
        ],
    }


def resource_document(resource: Resource) -> dict[str, Any]:
    if resource.kind == configs.BROKER and not resource.name:
        return {"type": "cluster", "name": None}
    return {"type": configs.KIND_NAMES[resource.kind], "name": resource.name}


@app.command("list")
def list_resources(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Show the resources that can be configured: topics, brokers, and the groups and client-metrics subscriptions with
    configuration."""

    async def question(cluster: Cluster) -> list[Resource]:
        return await configs.list_resources(cluster, sorted(configs.KINDS.values()))

    found = [resource_document(resource) for resource in ask(bootstrap, timeout, question)]
    show({"resources": found}, [Table(("KIND", "NAME"), [(each["type"], each["name"]) for each in found])], output)


@app.command("set", epilog="Example: kraft configs set topic flights retention.ms=86400000 cleanup.policy=compact")
def set_keys(
    words: Annotated[
        list[str],
        typer.Argument(metavar="KIND [NAME] KEY=VALUE...", help=f"{WHAT}; then what to set.", show_default=False),
    ],
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Set keys: all of them, or none."""
    resource, pairs = split_words(words)
    values = parse_pairs(pairs, "KEY=VALUE")
    if not values:
        raise typer.BadParameter("nothing to set: give KEY=VALUE")
    _alter(resource, [(key, configs.SET, value) for key, value in values.items()], dry_run, bootstrap, output, timeout)


@app.command("delete", epilog="Example: kraft configs delete topic flights retention.ms")
def delete_keys(
    words: Annotated[
        list[str], typer.Argument(metavar="KIND [NAME] KEY...", help=f"{WHAT}; then the keys.", show_default=False)
    ],
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Reset keys to their defaults."""
    resource, keys = split_words(words)
    if not keys:
        raise typer.BadParameter("nothing to delete: give keys")
    _alter(resource, [(key, configs.DELETE, None) for key in keys], dry_run, bootstrap, output, timeout)


async def _unset(cluster: Cluster, resource: Resource, keys: list[str]) -> list[str]:
    """The keys that the resource itself does not set. Raises NotFound for an unknown key."""
    own, told = configs.KIND_NAMES[resource.kind], resource
    if resource.kind == configs.BROKER and not resource.name:  # Nodes return only the keys that it sets.
        [node_id, *_] = await cluster.retrying(cluster.broker_ids)
        own, told = "cluster", Resource(configs.BROKER, str(node_id))
    known = {setting.name: setting for setting in await configs.describe_configs(cluster, told, keys)}
    if unknown := [key for key in keys if key not in known]:
        raise NotFound(f"{resource} has no key {', '.join(unknown)}", "`kraft configs describe --all` lists the keys")
    return [key for key in keys if own not in [source for _, _, source in known[key].synonyms]]


def _alter(
    resource: Resource,
    changes: list[tuple[str, int, str | None]],
    dry_run: bool,
    bootstrap: str,
    output: Output,
    timeout: float,
) -> None:
    async def question(cluster: Cluster) -> list[str]:
        await _expect(cluster, resource)
        # A key that this release does not know may be stored all the same: it is deleted before anything is said.
        deleted = [key for key, operation, _ in changes if operation == configs.DELETE]
        unset: list[str] = []
        missing: NotFound | None = None
        try:
            unset = await _unset(cluster, resource, deleted) if deleted else []
        except NotFound as problem:
            missing = problem
        try:
            await configs.alter_configs(cluster, resource, changes, validate_only=dry_run)
        except ApiError:
            if missing is None:
                raise
        if missing is not None:
            raise missing
        return unset

    unset = ask(bootstrap, timeout, question)
    changed = [
        {"name": key, "operation": "set" if operation == configs.SET else "delete", "value": value}
        for key, operation, value in changes
    ]
    told = ", ".join(key if value is None else f"{key}={value}" for key, _, value in changes if key not in unset)
    verb = "valid" if dry_run else "set" if changes[0][1] == configs.SET else "deleted"
    lines = [f"{verb} for {resource}: {told}"] if told else []
    lines += [f"not set for {resource}: {', '.join(unset)}"] if unset else []
    say(
        {"resource": resource_document(resource), "changes": changed, "dry_run": dry_run},
        "\n".join(lines),
        output,
    )
