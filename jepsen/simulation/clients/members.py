"""Members of one classic group in a simulated run. They join, get their assignment from the group's leader, commit, and
leave or vanish after a while.

Some go on committing under an old generation, as a paused consumer does.
"""

from __future__ import annotations

import trio

from jepsen.checker.operations import Assigned, Partition
from jepsen.simulation.clients.committers import commit, committed
from jepsen.simulation.clients.coordinators import find_coordinator
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, Session, Unanswered
from jepsen.simulation.recorder import Recorder
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kraft.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS = 6_000
REBALANCE_MS = 10_000
HEARTBEAT_SECONDS = 1.0
PROTOCOL = "range"
CONSUMER = "consumer"
REJOIN = {
    *TRY_AGAIN,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
}
FENCED = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS)
OFFSETS_EACH = 1_000_000  # So that every commit of the group has an offset of its own.


class Member:
    """A consumer that joins the group again and again."""

    def __init__(self, session: Session, recorder: Recorder, group: str, place: Partition, number: int) -> None:
        self._session = session
        self._recorder = recorder
        self._group = group
        self._place = place
        self._next = number * OFFSETS_EACH
        self._former: tuple[int, str] | None = None  # A generation that is over, and the member id in it.
        self._id = ""
        self._decisions = 0
        self.settled = trio.Event()  # Set by each generation in which it got its share.
        self.stopping = trio.Event()

    async def run(self) -> None:
        while not self.stopping.is_set():
            try:
                await self._one_generation()
            except Unanswered:
                await self._session.pause(0.5)

    async def _one_generation(self) -> None:
        joined = await self._join()
        if joined is None:
            await find_coordinator(self._session, self._group)
            await self._session.pause(0.3)
            return
        if not await self._sync(joined):
            return
        self.settled.set()
        chance = self._session.chance
        for _ in range(chance.randint(1, 20)):
            await self._session.world.clock.sleep(HEARTBEAT_SECONDS)
            if self.stopping.is_set() or not await self._heartbeat(joined.generation_id):
                self._former = (joined.generation_id, joined.member_id)
                return
            await self._commit(joined.generation_id)
        if chance.random() < 0.5:
            await self._leave()
        self._id = ""

    async def _commit(self, generation: int) -> None:
        """Commit under the present generation, or sometimes under an old one."""
        chance = self._session.chance
        self._next += 1
        if self._former is not None and chance.random() < 0.3:
            generation, member = self._former
        else:
            member = self._id
        await commit(
            self._session,
            self._recorder,
            self._group,
            self._place,
            self._next,
            generation=generation,
            member=member,
            also=FENCED,
        )
        if chance.random() < 0.3:
            await committed(self._session, self._recorder, self._group, self._place)

    async def _join(self) -> JoinGroupResponse | None:
        protocol = JoinGroupRequestProtocol(name=PROTOCOL, metadata=self._session.name.encode())
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._id,
            protocol_type=CONSUMER,
            protocols=[protocol],
        )
        response: JoinGroupResponse = await self._session.call(request, 2, 9)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._id = response.member_id
        elif response.error_code == ErrorCode.NONE:
            self._id = response.member_id
            return response
        elif response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._id = ""
        elif response.error_code not in REJOIN:
            raise Refused("JoinGroup", response.error_code)
        return None

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        """Send a SyncGroup. A leader assigns the same new tag to all members. Each member records the tag that it
        received."""
        assignments = []
        if joined.leader == joined.member_id:
            self._decisions += 1
            tag = f"{self._session.name}/{self._decisions}".encode()
            assignments = [
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=tag) for member in joined.members
            ]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=self._id,
            protocol_type=CONSUMER,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        response = await self._session.call(request, 0, 5)
        if response.error_code in REJOIN:
            if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._id = ""
            return False
        if response.error_code != ErrorCode.NONE:
            raise Refused("SyncGroup", response.error_code)
        share = Assigned(
            process=self._session.name,
            began=self._recorder.now(),
            group=self._group,
            generation=joined.generation_id,
            leader=joined.leader,
        )
        share.decision = bytes(response.assignment).decode()
        share.ok(self._recorder.now())
        self._recorder.add(share)
        return True

    async def _heartbeat(self, generation: int) -> bool:
        request = HeartbeatRequest(group_id=self._group, generation_id=generation, member_id=self._id)
        response = await self._session.call(request, 0, 4)
        if response.error_code == ErrorCode.NONE:
            return True
        if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._id = ""
        elif response.error_code not in REJOIN:
            raise Refused("Heartbeat", response.error_code)
        return False

    async def _leave(self) -> None:
        request = LeaveGroupRequest(group_id=self._group, members=[MemberIdentity(member_id=self._id)])
        response = await self._session.call(request, 3, 5)
        if response.error_code != ErrorCode.NONE and response.error_code not in REJOIN:
            raise Refused("LeaveGroup", response.error_code)
