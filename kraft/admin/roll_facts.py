"""The facts about a running cluster that are needed before its nodes are replaced one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kraft.admin import acls, cluster, configs, features, groups, topics, users
from kraft.admin.cluster import Quorum
from kraft.admin.features import Feature
from kraft.admin.groups import ListedGroup
from kraft.admin.metadata import Topic
from kraft.admin.transport import AdminTransport
from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.security.acls import ANY, AclFilter

MIN_ISR = "min.insync.replicas"
TIERED = "remote.storage.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollFacts:
    features: tuple[Feature, ...]
    quorum: Quorum
    topics: tuple[Topic, ...]
    minima: Mapping[str, int]
    """min.insync.replicas of each topic."""
    tiered: tuple[str, ...]
    """Topics with remote.storage.enable."""
    groups: tuple[ListedGroup, ...]
    settings: Mapping[int, Mapping[str, str]]
    """The settings of each live broker that differ from the defaults, without secrets."""
    permissions: int | None
    """The number of access control entries; None without an authorizer."""
    users: int
    """The number of users with SCRAM credentials."""


async def read_roll_facts(port: AdminTransport) -> RollFacts:
    """Read all facts from the cluster. Raises Refused, and what `AdminTransport.ask` raises for a broker that does not
    answer."""
    held = await topics.list_topics(port)
    described = await configs.describe_many(
        port, [configs.Resource(configs.TOPIC, each.name) for each in held], [MIN_ISR, TIERED]
    )
    by_topic = {resource.name: {each.name: each.value for each in found} for resource, found in described}
    return RollFacts(
        features=tuple(await features.describe_features(port)),
        quorum=await cluster.describe_quorum(port),
        topics=tuple(held),
        minima={name: int(found.get(MIN_ISR) or 1) for name, found in by_topic.items()},
        tiered=tuple(name for name, found in sorted(by_topic.items()) if found.get(TIERED) == "true"),
        groups=tuple(await groups.list_groups(port)),
        settings={broker: await _settings(port, broker) for broker in await port.broker_ids()},
        permissions=await _permissions(port),
        users=len(await users.describe_users(port)),
    )


async def _settings(port: AdminTransport, broker: int) -> dict[str, str]:
    found = await configs.describe_configs(port, configs.Resource(configs.BROKER, str(broker)))
    return {each.name: each.value for each in found if not each.is_default and each.value is not None}


async def _permissions(port: AdminTransport) -> int | None:
    try:
        return len(await acls.describe_acls(port, AclFilter(ANY, None, ANY, None, None, ANY, ANY)))
    except ApiError as problem:
        if problem.code != ErrorCode.SECURITY_DISABLED:
            raise
        return None
