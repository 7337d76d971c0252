"""The node as the HTTP admin sees it: `kraft_http.ports.AdminPort`, run on the node's own loop.

Requests go through the dispatcher that serves the broker's listeners, without a socket in between, so they have the
same meaning as on the wire. Requests to other brokers, and all of them on a node without a broker role, go over Kafka's
protocol. Facts and metrics are read from the metadata image and the parts of the broker, yielding to clients' requests.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import trio
from kraft_http.ports import (
    AccessFacts,
    Caller,
    Check,
    ClusterFacts,
    EventFacts,
    EventPage,
    HistoryPage,
    LeavePlan,
    ListedTopic,
    NodeIdentity,
    TopicFactsPage,
    TopicGroups,
    UncleanElectionFacts,
)

from kraft.common.errors import ApiError
from kraft.common.ids import ANONYMOUS
from kraft.common.version import VERSION
from kraft.network.login_outcome import TLS, LoginOutcome
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.security.acls import ResourceKind
from kraft.security.scram_credentials import SALT_BYTES, ScramMechanism, salted_password
from kraft.server.broker_lifecycle_manager import BrokerState
from kraft.server.events.event_journal import Events
from kraft.server.facts.cluster_facts import gather_facts, leave_plan
from kraft.server.facts.log_dir_sizes import gather_log_dir_sizes
from kraft.server.facts.loss_facts import gather_unclean_elections
from kraft.server.facts.topic_facts import gather_topic_facts, list_topics
from kraft.server.facts.topic_groups import gather_topic_groups
from kraft.server.history.gathering import gather_history
from kraft.server.http_admin.access import Permissions, access_of_caller
from kraft.server.http_admin.logins import CERTIFICATE, LISTENER, make_admin_logins
from kraft.server.http_admin.requests import LOCAL_HOST, LocalRequests
from kraft.server.metrics.group_lags import GroupLags
from kraft.server.metrics.node_metrics import NodeMetrics
from kraft.world.addresses import address_of
from kraft.world.asyncio_bridge import AsyncioBridge

if TYPE_CHECKING:
    from kraft_http.health.health import ClusterHealth
    from kraft_http.health.health_findings import WaitingElections

    from kraft.protocol.schema import Message
    from kraft.security.sasl.plain_users import PlainUsers
    from kraft.security.sasl.scram import Credential
    from kraft.server.broker_server import BrokerServer
    from kraft.server.controller_server import ControllerServer
    from kraft.server.events.audit import AuditLog
    from kraft.server.node import Node

T = TypeVar("T")
P = ParamSpec("P")
PARTITIONS_PER_STEP: Final = 1_000
"""Partitions examined between two yields."""
TOKEN_APIS: Final = frozenset(
    (
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    )
)


def _on_the_loop(
    method: Callable[Concatenate[AdminService, P], Awaitable[T]],
) -> Callable[Concatenate[AdminService, P], Coroutine[Any, Any, T]]:
    """Decorator: asyncio tasks call the method, and the node's loop runs it, while the caller's login is valid."""

    @wraps(method)
    async def run(service: AdminService, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await service._bridge.run(service._while_known, partial(method, service, *arguments, **named))

    return run


class AdminService:
    """The `AdminPort` of one node. Created on the node's loop. Every method may be called from asyncio tasks of another
    thread."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._bridge = AsyncioBridge(trio.lowlevel.current_trio_token())
        self._remote = node.remote
        lags = GroupLags(node, self._remote)
        self._metrics = NodeMetrics(node, lags)
        node.record_history(lags)
        config = node.config
        self._identity = NodeIdentity(
            node_id=config.node_id,
            roles=config.roles,
            cluster_id=node.cluster_id,
            version=VERSION,
            read_only=config.flag("kraft.admin.read.only"),
            admin_host="localhost" if config.admin_address is None else config.admin_address.host,
            advertised_hosts=tuple(endpoint.host for endpoint in config.advertised),
            allowed_hosts=config.texts("kraft.admin.allowed.hosts"),
            asks_for_password=config.text("kraft.admin.authentication") == "basic",
        )
        self._report = _audit(node).logins.of_listener(LISTENER)
        self._logins = make_admin_logins(
            node.world,
            config,
            self._credential,
            self._report,
            () if node.broker is None else node.broker.token_keys.checks,
            [*_plain_users(node.broker), *_plain_users(node.controller)],
        )
        self._principal = config.text("kraft.admin.principal") if self._logins is None else ANONYMOUS
        self._requests: LocalRequests | None = None
        if node.broker is not None:
            self._requests = LocalRequests(
                node.broker.dispatcher,
                node.broker.services.registry,
                node.config.broker_listeners[0],
                node.world.threads,
                node.loggers.get("http_admin"),
                node.world.clock,
            )
        self._speak_for(self._principal, LOCAL_HOST, _always, has_logged_in=False)

    def _speak_for(self, principal: str, host: str, holds: Callable[[], bool], *, has_logged_in: bool) -> None:
        """Make the following requests as this caller, while `holds` returns True."""
        self._holds = holds
        self._asks_as = principal
        self._access = access_of_caller(self._node, principal, host)
        self._local = None
        if self._requests is not None:
            self._local = self._requests.of_caller(principal, host, has_logged_in=has_logged_in)

    def _credential(self, user: str, mechanism: int) -> Credential | None:
        return self._node.shared.loader.image.scram.credentials.get((user, mechanism))

    async def on_behalf_of(self, caller: Caller) -> AdminService:
        """See `AdminPort`."""
        host, logins = address_of(caller.host), self._logins
        principal, holds = self._principal, _always
        if logins is not None:
            login = await self._bridge.run(logins.log_in, host, caller)
            principal, holds = login.principal, partial(logins.holds, login)
        spoken_for = copy.copy(self)
        spoken_for._speak_for(principal, host, holds, has_logged_in=logins is not None)
        return spoken_for

    def principal(self) -> str:
        """See `AdminPort`."""
        return self._asks_as

    def permissions(self) -> Permissions | None:
        """See `AdminPort`. None without an authorizer: everything is allowed."""
        return None if self._access is None else self._access.permissions()

    def tell_failed_handshake(self, host: str, reason: str) -> None:
        """See `AdminPort`."""
        self._bridge.tell(self._report, LoginOutcome(CERTIFICATE, address_of(host), failure=TLS, reason=reason))

    @property
    def identity(self) -> NodeIdentity:
        return self._identity

    def now_ms(self) -> int:
        return self._node.world.clock.wall_ms()

    @_on_the_loop
    async def call(self, api_key: int, version: int, request: Message, *, node_id: int | None = None) -> Any:
        if self._local is not None and node_id in (None, self._node.config.node_id):
            return await self._local.call(api_key, version, request)
        if api_key in TOKEN_APIS:  # Elsewhere it would be asked as this node.
            raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        if self._local is not None:
            self._local.check_served(api_key, version)
        if self._access is None:
            return await self._remote.call(version, request, node_id)
        return await self._access.send(
            api_key, version, request, lambda allowed: self._remote.call(version, allowed, node_id)
        )

    def _check_describe(self) -> None:
        """Check that the caller may describe the cluster. Raises ApiError CLUSTER_AUTHORIZATION_FAILED."""
        if self._access is not None:
            self._access.check_describe()

    @_on_the_loop
    async def access_of(self, principal: str, host: str, operation: int, kind: int, name: str) -> AccessFacts:
        await trio.lowlevel.checkpoint()
        if self._access is None:
            return AccessFacts(allowed=True, reason="NO_AUTHORIZER")
        allowed, reason, entry = self._access.explain(principal, address_of(host), operation, kind, name)
        return AccessFacts(allowed=allowed, reason=reason, entry=entry)

    @_on_the_loop
    async def salted_password(self, mechanism: ScramMechanism, password: str, iterations: int) -> tuple[bytes, bytes]:
        world = self._node.world
        salt = world.random.stream("scram-salt").randbytes(SALT_BYTES)
        return salt, await world.threads.run(salted_password, mechanism, password, salt, iterations)

    @_on_the_loop
    async def cluster_facts(self) -> ClusterFacts:
        self._check_describe()
        return await gather_facts(self._node)

    @_on_the_loop
    async def leave_plan(self, broker_id: int) -> LeavePlan:
        await trio.lowlevel.checkpoint()
        self._check_describe()
        return leave_plan(self._node.shared.loader.image, broker_id)

    @_on_the_loop
    async def cluster_health(self) -> ClusterHealth:
        return await self._node.status.cluster_health()

    async def waiting_elections(self, topic: str | None) -> WaitingElections:
        from kraft_http.health.health_findings import WaitingElections  # It loads pydantic.

        return WaitingElections.model_validate(await self._waiting_elections(topic))

    @_on_the_loop
    async def _waiting_elections(self, topic: str | None) -> Any:
        self._check_describe()
        return await self._node.status.waiting_elections(topic)

    @_on_the_loop
    async def unclean_elections(self, topic: str | None) -> Sequence[UncleanElectionFacts]:
        self._check_describe()
        return await gather_unclean_elections(self._node.shared.loader.image, topic)

    @_on_the_loop
    async def newest_events(self, count: int) -> EventPage:
        self._check_describe()
        return _event_page(self._node.events.newest(count), self._node.events.last_id)

    @_on_the_loop
    async def events(self, after_id: int, wait_seconds: float) -> EventPage:
        self._check_describe()
        journal, clock = self._node.events, self._node.world.clock
        found = journal.since(after_id)
        if not found.events and not found.missed and wait_seconds > 0:
            with clock.move_on_at(clock.now() + wait_seconds):
                await journal.wait(journal.last_id)
            self._check_login()
            self._check_describe()  # Either may have been lost meanwhile.
            found = journal.since(after_id)
        return _event_page(found, journal.last_id)

    @_on_the_loop
    async def listed_topics(self) -> Sequence[ListedTopic]:
        may_see = None if self._access is None else self._access.may_see(ResourceKind.TOPIC)
        return await list_topics(self._node.shared.loader.image.topics, may_see)

    @_on_the_loop
    async def topic_facts(self, topics: Sequence[str]) -> TopicFactsPage:
        self._check_describe()
        return await gather_topic_facts(self._node, topics)

    @_on_the_loop
    async def topic_groups(self, topic: str) -> TopicGroups:
        may_see = None if self._access is None else self._access.may_see(ResourceKind.GROUP)
        return await gather_topic_groups(self._node, topic, may_see)

    @_on_the_loop
    async def log_dir_sizes(self, broker_id: int) -> Mapping[str, int] | None:
        self._check_describe()
        return await gather_log_dir_sizes(self._node, broker_id)

    @_on_the_loop
    async def history(self, kind: str, name: str) -> HistoryPage:
        self._check_describe()
        return await gather_history(self._node, kind, name)

    @_on_the_loop
    async def liveness(self) -> Sequence[Check]:
        """The check that the node's loop runs. It passes, because it runs on the loop itself."""
        await trio.lowlevel.checkpoint()
        return [Check(name="loop", ok=True, detail="the node's loop answers")]

    @_on_the_loop
    async def readiness(self) -> Sequence[Check]:
        await trio.lowlevel.checkpoint()
        node = self._node
        leader = node.shared.raft.leader_and_epoch.leader_id
        known = f"the active controller is node {leader}" if leader >= 0 else "no active controller is known"
        checks = [Check(name="controller", ok=leader >= 0, detail=known)]
        if node.broker is not None:
            lifecycle = node.broker.lifecycle
            lost = lifecycle.registration_lost
            registered, serving = lifecycle.epoch >= 0, lifecycle.state == BrokerState.RUNNING and not lifecycle.fenced
            checks.append(
                Check(
                    name="registered",
                    ok=registered and lost is None,
                    detail="not registered with the quorum"
                    if not registered
                    else f"broker epoch {lifecycle.epoch}"
                    if lost is None
                    else f"the controller refuses its heartbeats ({lost}): it was unregistered, or another process "
                    "registered with its id. Restart it.",
                )
            )
            checks.append(
                Check(
                    name="unfenced",
                    ok=serving,
                    detail="the broker is not fenced" if serving else "fenced or shutting down",
                )
            )
        return checks

    @_on_the_loop
    async def replicas_in_sync(self) -> Check:
        broker, count, first = self._node.broker, 0, ""
        if broker is None:
            return Check(name="in_sync", ok=True, detail="the node has no broker role")
        node_id, topics = self._node.config.node_id, broker.metadata.image.topics
        waiting = {each.topic_partition for each in broker.replicas.damaged.waiting()}
        for number, partition in enumerate(broker.replicas):
            if number % PARTITIONS_PER_STEP == 0:
                await trio.lowlevel.checkpoint()
            topic = topics.by_name(partition.topic)
            known = None if topic is None else topic.partitions.get(partition.index)
            if (
                known is not None
                and known.has_leader
                and node_id in known.replicas
                and node_id not in known.isr
                and (partition.topic, partition.index) not in waiting
            ):
                count += 1
                first = first or str(partition)
        lagging = f"{count} replicas are not in sync, {first} among them"
        return Check(
            name="in_sync", ok=not count, detail=lagging if count else "every replica with a leader is in sync"
        )

    @_on_the_loop
    async def metrics(self, by: str | None) -> Sequence[str]:
        if self._node.config.flag("kraft.admin.metrics.authorize"):
            self._check_describe()
        return await self._metrics.render(by)

    async def _while_known(self, carry_out: Callable[[], Awaitable[T]]) -> T:
        self._check_login()
        return await carry_out()

    def _check_login(self) -> None:
        """Raises ApiError SASL_AUTHENTICATION_FAILED if the login is no longer valid."""
        if not self._holds():
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the password was changed or removed since the login")


def _always() -> bool:
    return True


def _plain_users(role: BrokerServer | ControllerServer | None) -> list[PlainUsers]:
    """The users of PLAIN of each listener of a role."""
    return [] if role is None else list(role.plain_users.values())


def _audit(node: Node) -> AuditLog:
    role = node.broker or node.controller
    assert role is not None
    return role.audit


def _event_page(found: Events, last_id: int) -> EventPage:
    events = tuple(
        EventFacts(id=event.id, time_ms=event.time_ms, kind=event.kind, fields=event.fields) for event in found.events
    )
    return EventPage(events=events, missed=found.missed, last_id=events[-1].id if events else last_id)
