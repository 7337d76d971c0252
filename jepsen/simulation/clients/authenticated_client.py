"""Clients that authenticate, in a quarter of the simulated clusters. Some users get and lose the permission to write,
one user never has it, and one user has a quota. An administrator grants and revokes the permissions.

All other clients, and the nodes among themselves, use another listener as the super user ANONYMOUS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import trio

from jepsen.checker.errors import is_definite
from jepsen.checker.operations import Asked, Partition, Permission, Send, Throttled
from jepsen.simulation.clients.readers import fetch_request
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, RoamingSession, Session, Unanswered
from jepsen.simulation.layouts import GUESTS
from jepsen.simulation.recorder import Recorder
from kraft.admin.acls import creation, deletion
from kraft.metadata.image.acls_image import AclsImage
from kraft.metadata.quota_keys import PRODUCER_BYTE_RATE
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kraft.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import Record, build_batch
from kraft.security.acls import AccessControlEntry, AclFilter, Operation, PatternType, ResourceKind
from kraft.security.acls import Permission as Kind
from kraft.security.sasl.jaas import PLAIN_MODULE

GUARDED: Final[Partition] = ("guarded", 0)
WRITERS: Final = tuple(f"writer-{number}" for number in range(12))
STRANGER: Final = "stranger"
LIMITED: Final = "limited"
BYTES_A_SECOND: Final = 20.0
"""Quota of the limited user, whose batches are larger."""
READ_RATE: Final = 0.3
LATE_SECONDS: Final = 3.0
"""Time after healing in which a request that a broker forwarded twice may still arrive."""
WRITE: Final = "write"
READ: Final = "read"
PASSED: Final = (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Responses to authorized requests."""


def password(user: str) -> str:
    return f"{user}-secret"


def settings() -> dict[str, str]:
    """The configuration that all nodes share, without their listeners."""
    users = " ".join(f'user_{user}="{password(user)}"' for user in (*WRITERS, STRANGER, LIMITED))
    return {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{GUESTS}:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{GUESTS.lower()}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


def allows(entries: AclsImage, user: str) -> bool:
    """Whether these ACL entries let the user write."""
    return any(entry.principal == f"User:{user}" for entry in entries.by_id.values())


class Insight(NamedTuple):
    """The harness's view of the ACL entries of the broker at a host; None if the broker is down. `told` returns entries
    that the authorizer certainly has, `read` all entries that it may have."""

    told: Callable[[str], AclsImage | None]
    read: Callable[[str], AclsImage | None]


class Permissions:
    """Grants the write permission to one user and revokes it again. After a change whose outcome is unknown it
    continues with the next user."""

    def __init__(self, session: Session, recorder: Recorder) -> None:
        self._session = session
        self._recorder = recorder
        self._number = 0
        self._is_granted = False
        self.stopping = trio.Event()

    @property
    def user(self) -> str:
        """The user that is granted the permission at present."""
        return WRITERS[min(self._number, len(WRITERS) - 1)]

    @property
    def users(self) -> tuple[str, ...]:
        """The users that may have been granted the permission so far."""
        return WRITERS[: self._number + 1]

    async def run(self) -> None:
        while not self.stopping.is_set() and self._number < len(WRITERS):
            await self._turn(is_granted=not self._is_granted)
            await self._session.pause(4.0)
        self._session.close()

    async def _turn(self, *, is_granted: bool) -> None:
        if await self.change(self.user, is_granted=is_granted):
            self._is_granted = is_granted
        else:
            self._number, self._is_granted = self._number + 1, False

    async def change(self, user: str, *, is_granted: bool) -> bool:
        """Grant or revoke a user's permission. Returns whether the change was acknowledged; a change that was not may
        still take effect."""
        change = self._recorder.add(
            Permission(
                process=self._session.name,
                began=self._recorder.now(),
                user=user,
                topic=GUARDED[0],
                is_granted=is_granted,
            )
        )
        entry = _entry(user)
        try:
            request = creation([entry]) if is_granted else deletion([AclFilter(*entry)])
            response = await self._session.call(request, 1, 3)
        except Unanswered:
            change.ended = self._recorder.now()
            return False
        (result,) = response.results if is_granted else response.filter_results
        if result.error_code == ErrorCode.NONE:
            change.ok(self._recorder.now())
            return True
        if result.error_code not in TRY_AGAIN:
            raise Refused(f"{'CreateAcls' if is_granted else 'DeleteAcls'} of {user}", result.error_code)
        change.failed(self._recorder.now(), name_of(result.error_code), definite=False)
        return False

    async def admit(self, user: str) -> None:
        """Grant a user the permission permanently; retry until that is acknowledged."""
        while not await self.change(user, is_granted=True):
            await self._session.pause(0.5)

    async def limit(self, user: str) -> None:
        entity = [EntityData(entity_type="user", entity_name=user)]
        entry = EntryData(entity=entity, ops=[OpData(key=PRODUCER_BYTE_RATE, value=BYTES_A_SECOND)])
        while True:
            try:
                response = await self._session.call(AlterClientQuotasRequest(entries=[entry]), 0, 1)
            except Unanswered:
                await self._session.pause(0.5)
                continue
            (result,) = response.entries
            if result.error_code == ErrorCode.NONE:
                return
            if result.error_code not in TRY_AGAIN:
                raise Refused(f"AlterClientQuotas of {user}", result.error_code)
            await self._session.pause(0.5)

    async def take_all(self) -> None:
        """After healing: revoke the permission of every user that may have it."""
        for seconds in (LATE_SECONDS, 0.0):
            for user in self.users:
                while not await self.change(user, is_granted=False):
                    await self._session.pause(0.5)
            await self._session.world.clock.sleep(seconds)


def _entry(user: str) -> AccessControlEntry:
    """Return the ACL entry that lets a user write."""
    return AccessControlEntry(
        ResourceKind.TOPIC, GUARDED[0], PatternType.LITERAL, f"User:{user}", "*", Operation.WRITE, Kind.ALLOW
    )


class AuthenticatedClient:
    """Writes to the guarded topic as the present user, sometimes reads it, and records whether each request was
    authorized."""

    def __init__(
        self,
        sessions: Callable[[str], RoamingSession],
        recorder: Recorder,
        insight: Insight,
        user: Callable[[], str],
        *,
        reads: bool = True,
    ) -> None:
        """`sessions` opens a session for a user. With `reads` the client also reads; a read is refused, and the client
        moves to another node."""
        self._make_session = sessions
        self._sessions: dict[str, RoamingSession] = {}
        self._recorder = recorder
        self._insight = insight
        self._user = user
        self._reads = reads
        self._count = 0
        self._owed: tuple[object, float, float] | None = None
        """The last throttled request: its connection, the time when it was sent, and its throttle time in seconds."""
        self.stopping = trio.Event()

    async def run(self) -> None:
        while not self.stopping.is_set():
            user = self._user()
            if user not in self._sessions:
                self._sessions[user] = self._make_session(user)
            await self._ask(self._sessions[user], user)
            await self._sessions[user].pause(0.8)
        for session in self._sessions.values():
            session.close()

    async def _ask(self, session: RoamingSession, user: str) -> None:
        try:
            await session.aim(GUARDED)
            if self._reads and session.chance.random() < READ_RATE:
                await self._read(session, user)
            else:
                await self.write(session, user)
        except Unanswered:
            await session.pause(0.5)

    async def write(self, session: RoamingSession, user: str) -> None:
        """Send one batch as the user of the session. Raises Unanswered."""
        self._count += 1
        value, (topic, partition) = f"{session.name}:{self._count}", GUARDED
        send = Send(process=session.name, began=self._recorder.now(), topic=topic, partition=partition, values=[value])
        self._recorder.add(send)
        batch = build_batch([Record(0, session.world.clock.wall_ms(), b"k", value.encode(), ())])
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        asked, before = self._asked(session, user, WRITE), self._insight.told(session.host)
        try:
            response = await session.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 3, 12)
        except Unanswered:
            send.ended = self._recorder.now()
            raise
        answer = response.responses[0].partition_responses[0]
        self._heard(asked, before, answer.error_code)
        self._waits(session, user, send.began, response.throttle_time_ms / 1000)
        if answer.error_code == ErrorCode.NONE:
            send.offset = answer.base_offset
            send.ok(self._recorder.now())
            return
        error = name_of(answer.error_code)
        send.failed(self._recorder.now(), error, definite=is_definite(error))
        self._only_refused(session, answer.error_code, "Produce")

    async def _read(self, session: RoamingSession, user: str) -> None:
        topic, partition = GUARDED
        wanted = FetchTopic(topic=topic, partitions=[FetchPartition(partition=partition, partition_max_bytes=1000)])
        asked, before = self._asked(session, user, READ), self._insight.told(session.host)
        response = await session.call(fetch_request(wanted), 4, 8)
        code = response.responses[0].partitions[0].error_code
        self._heard(asked, before, code)
        self._only_refused(session, code, "Fetch")

    def _asked(self, session: RoamingSession, user: str, operation: str) -> Asked:
        now, node = self._recorder.now(), session.host.removeprefix("node-")
        return Asked(process=session.name, began=now, user=user, topic=GUARDED[0], operation=operation, node=node)

    def _heard(self, asked: Asked, before: AclsImage | None, code: int) -> None:
        """Record whether the request was authorized, if its error code says so."""
        if code not in (*PASSED, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            return
        asked.is_allowed = code in PASSED
        host = f"node-{asked.node}"
        if before is not None and self._insight.read(host) is before:
            asked.expected = asked.operation == WRITE and allows(before, asked.user)
        asked.ok(self._recorder.now())
        self._recorder.add(asked)

    def _waits(self, session: RoamingSession, user: str, began: float, seconds: float) -> None:
        connection = session.present_connection
        if self._owed is not None and self._owed[0] is connection:
            _, since, owed = self._owed
            waited = Throttled(process=session.name, began=since, user=user, seconds=owed)
            waited.ok(self._recorder.now())
            self._recorder.add(waited)
        self._owed = None if connection is None or not seconds else (connection, began, seconds)

    @staticmethod
    def _only_refused(session: RoamingSession, code: int, what: str) -> None:
        """Move to another node after an authorization failure. Raises Refused for any other error that cannot be
        retried."""
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            session.roam()
        elif code != ErrorCode.NONE and code not in TRY_AGAIN:
            raise Refused(f"{what} of {session.name}", code)
