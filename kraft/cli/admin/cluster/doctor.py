"""`kraft doctor`: why a client cannot connect, and which settings will cause trouble, as seen from this machine.

`kraft cluster health` asks the cluster about its state. This checks whether the cluster can be reached at the addresses
that it advertises, and whether its settings give the guarantees that users expect.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Final, NamedTuple

import trio
import typer

from kraft.admin import cluster as admin
from kraft.admin import features, topics
from kraft.admin.group_lags import GroupLag, share_group_lags
from kraft.admin.groups import ListedGroup, is_share_group, list_groups
from kraft.admin.metadata import Topic
from kraft.admin.streams_groups import STREAMS
from kraft.cli.admin.command_config import security_of_command
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, parse_bootstrap
from kraft.cli.admin.output import Table, show
from kraft.cli.admin.running import FAILED, complain
from kraft.cli.admin.unreached import NAME, OTHER_NAME, REFUSED, SILENT, cause_of, remedy_of
from kraft.common.errors import ConfigurationError, KraftError
from kraft.common.features import METADATA_VERSION, SHARE_VERSION, STREAMS_VERSION, level_at_format
from kraft.common.internal_topics import SHARE_GROUP_STATE_TOPIC
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import ClientConnection, open_connection
from kraft.world.ports import World
from kraft.world.real import RealWorld

app = typer.Typer(add_completion=False)

OK: Final = "ok"
NOTE: Final = "note"
"""The result of a check that found something to know, but no fault."""
FAULT: Final = "fault"
NOT_READY: Final = "NotReady"
"""State of a streams group without the topics of its topology."""
NAMED_MAX: Final = 5
"""Limit of topics named in a finding. Further ones are counted."""
SHARE_GROUPS_MAX: Final = 200
"""Limit of share groups whose lag is requested, in order of their names."""
Address = tuple[str, int]


class Tried(NamedTuple):
    """The bootstrap addresses that answered, and those that did not."""

    reached: list[Address]
    failed: list[Address]


class Finding(NamedTuple):
    """The result of one check. `remedy` is empty if nothing needs to be done."""

    check: str
    result: str
    summary: str
    remedy: str = ""


@app.command(epilog="Example: kraft doctor -b kafka.example.org:9092")
def doctor(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Longest wait for the response of each address."),
    ] = 5.0,
) -> None:
    """Find out why clients cannot connect, or what will cause trouble later. Exits with 1 if something is wrong.

    Checks, from this machine, every given address and every address that the cluster advertises to clients, the verdict
    of `kraft cluster health`, and releases, features, replication factors, share groups and streams
    groups.
    """
    addresses = parse_bootstrap(bootstrap)
    try:
        world = RealWorld(**security_of_command()._asdict())
    except ConfigurationError as problem:
        raise typer.Exit(complain(problem)) from problem
    findings = trio.run(examine, world, addresses, timeout)
    is_well = all(finding.result != FAULT for finding in findings)
    show(
        {"is_well": is_well, "findings": [finding._asdict() for finding in findings]},
        [Table(Finding._fields, findings)._replace(columns=("CHECK", "RESULT", "FINDING", "WHAT TO DO"))],
        output,
    )
    if not is_well:
        raise typer.Exit(FAILED)


async def examine(world: World, addresses: list[Address], timeout: float) -> list[Finding]:
    """All findings, in the order of the checks."""
    findings: list[Finding] = []
    tried = Tried([], [])
    for address in addresses:
        finding = await _reach(world, address, timeout, _nothing)
        findings.append(finding)
        (tried.reached if finding.result == OK else tried.failed).append(address)
    if not tried.reached:
        return findings
    async with Cluster(world, tried.reached, connect_seconds=timeout, operation_seconds=timeout * 2) as cluster:
        for look in (_advertised_addresses, _health, _releases, _copies, _groups):
            try:
                findings += await look(cluster, tried, timeout)
            except (KraftError, TimeoutError) as problem:
                if _is_reported(str(problem), findings):
                    continue
                findings.append(Finding(look.__name__.strip("_").replace("_", " "), FAULT, str(problem)))
    return findings


def _is_reported(problem: str, findings: list[Finding]) -> bool:
    """Whether a fault was found already with the text of this problem, or with an address in it."""
    names = [problem, *re.findall(r"[\w.\-\[\]:]+:\d+", problem)]
    return any(name in each.summary for name in names for each in findings if each.result == FAULT)


async def _nothing(connection: ClientConnection) -> str:
    return ""


async def _reach(
    world: World,
    address: Address,
    timeout: float,
    ask: Callable[[ClientConnection], Awaitable[str]],
    *,
    check: str = "bootstrap address",
    advertiser: int | None = None,
) -> Finding:
    """Connect, encrypt, authenticate, and call `ask`, which returns what is wrong with the node that answers, or an
    empty text. `advertiser` is the broker that advertises this address."""
    host, port = address
    began = world.clock.now()
    try:
        connection = await open_connection(world, host, port, client_id="kraft-doctor", timeout=timeout)
        try:
            wrong = await ask(connection)
        finally:
            connection.close()
    except (KraftError, TimeoutError) as problem:
        return Finding(check, FAULT, str(problem), _remedy(problem, world, host, advertiser))
    took = f"{host}:{port} answers in {(world.clock.now() - began) * 1000:.0f} ms"
    if wrong:
        return Finding(check, FAULT, wrong, f"set advertised.listeners of broker {advertiser} to its own address")
    return Finding(check, OK, took)


def _remedy(problem: Exception, world: World, host: str, advertiser: int | None) -> str:
    remedy = remedy_of(problem, is_encrypted=world.tls is not None)
    if advertiser is None:
        return remedy
    cause = cause_of(problem)
    if cause == REFUSED:
        return f"is broker {advertiser} running? If it is, set its advertised.listeners to an address where it listens"
    if cause in (NAME, SILENT, OTHER_NAME):
        return f"{remedy}; or broker {advertiser} advertises a wrong address: set its advertised.listeners"
    return remedy


async def _advertised_addresses(cluster: Cluster, tried: Tried, timeout: float) -> list[Finding]:
    """Check every advertised address: clients switch to them after the bootstrap. Addresses that failed as bootstrap
    addresses are already reported."""
    reached, failed = tried
    found = await admin.describe_cluster(cluster)

    async def same_cluster(connection: ClientConnection) -> str:
        answer = await connection.call(DescribeClusterRequest())
        told = answer.cluster_id
        return "" if told == found.cluster_id else f"cluster {told} answers there, and not {found.cluster_id}"

    findings = []
    for broker in found.brokers:
        if broker.is_fenced or (broker.host, broker.port) in failed:
            continue
        finding = await _reach(
            cluster.world,
            (broker.host, broker.port),
            timeout,
            same_cluster,
            check=f"address of broker {broker.node_id}",
            advertiser=broker.node_id,
        )
        if finding.result == OK and _is_loopback(broker.host) and not all(_is_loopback(host) for host, _ in reached):
            finding = finding._replace(
                result=FAULT,
                summary=f"broker {broker.node_id} advertises {broker.host}, which on another machine is that machine "
                "itself",
                remedy="set its advertised.listeners to its name in the network",
            )
        findings.append(finding)
    return findings


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _health(cluster: Cluster, tried: Tried, timeout: float) -> list[Finding]:
    from kraft.cli.admin.cluster.health import cluster_health  # pydantic takes 100 ms that no other command needs.

    verdict = await cluster_health(cluster)
    warnings = [Finding("health", NOTE, warning.summary, warning.remedy) for warning in verdict.warnings]
    if verdict.is_healthy:
        return [Finding("health", OK, "the cluster finds nothing wrong with itself"), *warnings]
    return [*(Finding("health", FAULT, reason.summary, reason.remedy) for reason in verdict.reasons), *warnings]


async def _releases(cluster: Cluster, tried: Tried, timeout: float) -> list[Finding]:
    """Check that all brokers serve the same requests: otherwise they run different releases. Features at the level of a
    new cluster need no attention."""
    served: dict[str, list[int]] = {}
    for node_id in await cluster.broker_ids():
        versions = await cluster.versions(node_id)
        served.setdefault(repr(sorted(versions.items())), []).append(node_id)
    found = await features.describe_features(cluster)
    metadata_version = next((each.level for each in found if each.name == METADATA_VERSION), 0)
    raised = [each for each in found if 0 < each.level < level_at_format(each.name, each.max_level, metadata_version)]
    findings = [Finding("releases", OK, "all brokers serve the same requests")]
    if len(served) > 1:
        sets = " and ".join(", ".join(map(str, nodes)) for nodes in served.values())
        findings = [
            Finding(
                "releases",
                NOTE,
                f"brokers {sets} run different releases",
                "finish the upgrade, then raise the features",
            )
        ]
    findings += [
        Finding(
            "features",
            NOTE,
            f"{each.name} is at level {each.level}; every broker runs {each.max_level}",
            f"kraft features upgrade {each.name}={each.max_level}, once you will not downgrade",
        )
        for each in raised
    ]
    return findings


async def _copies(cluster: Cluster, tried: Tried, timeout: float) -> list[Finding]:
    """Check for topics whose replication settings guarantee less, or reject more, than users expect."""
    from kraft.cli.admin.cluster.health import minima_of

    held = [topic for topic in await topics.list_topics(cluster) if topic.partitions]
    if len(await cluster.broker_ids()) == 1:
        return [
            Finding(
                "copies",
                NOTE,
                "there is one broker: no record has a copy",
                "three brokers are needed to survive the loss of one",
            )
        ]
    single = [topic.name for topic in held if _copies_of(topic) == 1]
    minima = await minima_of(cluster, [topic.name for topic in held if _copies_of(topic) > 1])
    strict = [topic.name for topic in held if _copies_of(topic) > 1 and minima.get(topic.name, 1) >= _copies_of(topic)]
    loose = [topic.name for topic in held if _copies_of(topic) > 2 and minima.get(topic.name, 1) == 1]
    findings = [
        Finding("copies", NOTE, f"{_named(names)} {what}", remedy)
        for names, what, remedy in (
            (single, "have one copy: a lost broker takes records along", "kraft reassignments plan adds replicas"),
            (
                strict,
                "refuse writes with acks=all as soon as one broker is away",
                "kraft configs set topic NAME min.insync.replicas=N, one less than the replicas",
            ),
            (
                loose,
                "have min.insync.replicas=1: acks=all may mean one copy",
                "kraft configs set topic NAME min.insync.replicas=2",
            ),
        )
        if names
    ]
    return findings or [Finding("copies", OK, "every topic survives the loss of a broker")]


async def _groups(cluster: Cluster, tried: Tried, timeout: float) -> list[Finding]:
    """Check share groups and streams groups, if there are any. All groups are listed once for both checks, so a broker
    that hangs delays them only once."""
    listed = await list_groups(cluster)
    shares = [each for each in listed if is_share_group(each)]
    streams = [each for each in listed if each.type.lower() == STREAMS]
    if not shares and not streams:
        return []
    levels = {each.name: each.level for each in await features.describe_features(cluster)}
    findings = judge_streams_groups(streams, are_on=bool(levels.get(STREAMS_VERSION, 0))) if streams else []
    if not shares:
        return findings
    if not levels.get(SHARE_VERSION, 0):
        return judge_share_groups(shares, [], None, are_on=False) + findings
    coordinators = {each.group_id: each.coordinator for each in shares[:SHARE_GROUPS_MAX]}
    held = [topic for topic in await topics.list_topics(cluster) if topic.name == SHARE_GROUP_STATE_TOPIC]
    lags = await share_group_lags(cluster, coordinators)
    return judge_share_groups(shares, lags, held[0] if held else None, are_on=True) + findings


def judge_streams_groups(listed: Sequence[ListedGroup], *, are_on: bool) -> list[Finding]:
    """The findings on streams groups. `are_on` says whether the feature is on."""
    check = "streams groups"
    if not are_on:
        names = _named(each.group_id for each in listed)
        summary = f"streams.version is 0: members of the streams groups {names} get UNSUPPORTED_VERSION"
        return [Finding(check, FAULT, summary, "kraft features upgrade streams.version=1")]
    waiting = [each.group_id for each in listed if each.state == NOT_READY]
    if not waiting:
        return [Finding(check, OK, f"all {len(listed)} streams groups are served")]
    summary = f"streams groups cannot run their topology: {_named(waiting)}"
    remedy = "the application's log names the topics that are missing or have the wrong number of partitions"
    return [Finding(check, FAULT, summary, remedy)]


def judge_share_groups(
    listed: Sequence[ListedGroup], lags: Sequence[GroupLag], states: Topic | None, *, are_on: bool
) -> list[Finding]:
    """The findings on share groups. `states` is the topic with the states of share groups; None if it does not exist.
    `are_on` says whether the feature is on."""
    check = "share groups"
    if not are_on:
        names = _named(each.group_id for each in listed)
        summary = f"share.version is 0: clients of the share groups {names} get UNSUPPORTED_VERSION"
        return [Finding(check, FAULT, summary, "kraft features upgrade share.version=1")]
    behind = [each for each in states.partitions if len(each.in_sync) < len(each.replicas)] if states else []
    abandoned = [each.group.group_id for each in lags if each.total and not each.group.members]
    findings = [
        Finding(check, result, summary, remedy)
        for found, result, summary, remedy in (
            (
                behind,
                FAULT,
                f"{len(behind)} partitions of {SHARE_GROUP_STATE_TOPIC} are under-replicated: acknowledgements fail "
                "once fewer than min.insync.replicas are left",
                "kraft partitions list --under-replicated shows which brokers are missing",
            ),
            (
                abandoned,
                NOTE,
                f"records wait in share groups without members: {_named(abandoned)}",
                "start their members, or delete the groups: kraft share delete NAME",
            ),
        )
        if found
    ]
    return findings or [Finding(check, OK, f"all {len(listed)} share groups are served")]


def _copies_of(topic: Topic) -> int:
    return min(len(partition.replicas) for partition in topic.partitions)


def _named(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    return f"{', '.join(found[:NAMED_MAX])}{more}"
