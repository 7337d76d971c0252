"""Shell completion of topics, groups and brokers, with the names in the cluster.

A shell runs the command (`_KRAFT_COMPLETE`) with the words typed so far, so the cluster of its --bootstrap-server,
profile or environment is used. If the cluster does not answer soon there is no completion and no message.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NamedTuple

import trio

from kraft.admin import groups, share_groups, topics
from kraft.cli.admin.command_config import read_client_security
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, parse_bootstrap
from kraft.cli.admin.profile_file import profiles_path, read_profiles, variables_of
from kraft.rpc_client.cluster import Cluster
from kraft.world.real import RealWorld

SECONDS_MAX: Final = 1.5
"""Short: the user waits for the completions."""
OFFERED_MAX: Final = 500

Names = Callable[[Cluster], Awaitable[list[str]]]


async def _topics(cluster: Cluster) -> list[str]:
    return [topic.name for topic in await topics.list_topics(cluster)]


async def _groups(cluster: Cluster) -> list[str]:
    return sorted(group.group_id for group in await groups.list_groups(cluster))


async def _share_groups(cluster: Cluster) -> list[str]:
    return [group.group_id for group in await share_groups.list_share_groups(cluster)]


async def _brokers(cluster: Cluster) -> list[str]:
    return [str(node_id) for node_id in await cluster.broker_ids()]


class Offered(NamedTuple):
    """A completion like click's CompletionItem."""

    value: str
    type: str = "plain"
    help: str | None = None


NAMES: Final[dict[tuple[str, str], Names]] = {
    ("*", "TOPIC"): _topics,
    ("*", "GROUP"): _groups,
    ("share", "GROUP"): _share_groups,
    ("brokers", "ID"): _brokers,
}
"""By noun (*: any) and by the parameter's name in help, without brackets and dots."""


def offer_names(noun: str, verb: Any) -> None:
    """Add completion to the verb's parameters that name things of a cluster."""
    for parameter in verb.params:
        word = (parameter.metavar or "").strip("[].")
        names = NAMES.get((noun, word)) or NAMES.get(("*", word))
        if names is not None:
            parameter.shell_complete = partial(_complete, names)


def _complete(names: Names, context: Any, incomplete: str) -> list[Offered]:
    try:
        found = trio.run(_ask, names, context)
    except Exception:  # noqa: BLE001 - an error during completion is not shown; the command reports it.
        return []
    return [Offered(name) for name in found if name.startswith(incomplete)][:OFFERED_MAX]


async def _ask(names: Names, context: Any) -> list[str]:
    where = _environment_of(context)
    path = where.get("KRAFT_COMMAND_CONFIG")
    world = RealWorld(**({} if not path else read_client_security(path)._asdict()))
    addresses = parse_bootstrap(where.get("KRAFT_BOOTSTRAP_SERVER") or DEFAULT_BOOTSTRAP)
    with trio.fail_after(SECONDS_MAX):
        async with Cluster(world, addresses, connect_seconds=SECONDS_MAX, operation_seconds=SECONDS_MAX) as cluster:
            await cluster.features()  # Fails immediately if no broker answers.
            return await names(cluster)


def _environment_of(context: Any) -> dict[str, str]:
    """The environment of the command: with its profile, and the bootstrap servers that were typed."""
    where = dict(os.environ)
    profile = context.find_root().params.get("profile")
    if profile:
        path = profiles_path(where)
        where |= variables_of(read_profiles(path), profile, path)
    if getattr(context.get_parameter_source("bootstrap"), "name", "") == "COMMANDLINE":
        where["KRAFT_BOOTSTRAP_SERVER"] = context.params["bootstrap"]
    return where
