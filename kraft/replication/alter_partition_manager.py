"""Proposals of in-sync replica sets to the controller (KIP-497).

One request is in flight at a time. The next request carries all proposals that were queued meanwhile.

A partition keeps its proposal as `pending_isr` until the controller's response or the metadata log decides it. A
proposal stays pending unless the controller says that it was refused: it may have been applied, so both the current and
the proposed set count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from kraft.common.backed_off_log import BackedOffLog
from kraft.common.errors import ApiError
from kraft.common.quarantine import Quarantine
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages import alter_partition_response as answer
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kraft.replication.partition import Partition
from kraft.world.ports import World
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.common.logging import Logger

PARTITIONS_PER_REQUEST: Final = 250
"""Limit per request: the controller decides a request in one step of its loop."""
WORK: Final = "in-sync set"
"""The name of this work in health reports."""
RETRY_SECONDS: Final = 0.05
RECOVERED: Final = 0

WITHDRAWN: Final = frozenset((ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA))
"""Errors that mean the proposal was not applied. The previous set stays in force, and another may be proposed."""

AWAITS_METADATA: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    )
)
"""Errors that mean the controller has a newer state of the partition. This broker has yet to read it in the metadata
log."""


class Channel(Protocol):
    async def send(self, request: Any, *, timeout: float | None = None) -> Any: ...


class _Proposal:
    """A proposal for one partition, with the state of the partition when it was made.

    It names the broker epochs seen when the replicas were found in sync, however late it is sent (KIP-903). A broker
    that has restarted since may have lost its disk. The old epoch lets the controller refuse such a broker.
    """

    __slots__ = ("_followers", "isr", "leader_epoch", "partition", "partition_epoch")

    def __init__(self, partition: Partition) -> None:
        assert partition.pending_isr is not None
        self.partition = partition
        self.isr = partition.pending_isr
        self.leader_epoch = partition.leader_epoch
        self.partition_epoch = partition.partition_epoch
        followers = partition.followers or {}
        self._followers = {member: followers[member].broker_epoch for member in self.isr if member in followers}

    @property
    def stands(self) -> bool:
        """Whether the proposal is still current: the metadata log has not changed the partition since."""
        partition = self.partition
        return partition.pending_isr == self.isr and (partition.leader_epoch, partition.partition_epoch) == (
            self.leader_epoch,
            self.partition_epoch,
        )

    def to_wire(self, own_epoch: int) -> PartitionData:
        partition = self.partition
        members = [
            (member, own_epoch if member == partition.node_id else self._followers.get(member, -1))
            for member in self.isr
        ]
        return PartitionData(
            partition_index=partition.index,
            leader_epoch=self.leader_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in members],
            leader_recovery_state=RECOVERED,
            partition_epoch=self.partition_epoch,
        )


class AlterPartitionManager:
    """Queues and sends the ISR proposals of one broker. Owned by the broker's loop."""

    def __init__(
        self, broker_id: int, broker_epoch: Callable[[], int], channel: Channel, world: World, log: Logger
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._clock = world.clock
        self.set_aside = Quarantine(world.clock, world.log_sink)
        self._log = log
        self._refusals = BackedOffLog(log, world.clock)
        self._was_refused = False
        self._wanted: dict[tuple[bytes, int], _Proposal] = {}
        self._woken = trio.Event()
        self.shrinks = 0
        self.expansions = 0
        self.failed_updates = 0

    def reconsider(self, partition: Partition) -> None:
        """Queue a proposal if the partition's in-sync replica set should change."""
        isr = partition.isr_to_propose(self._clock.now())
        if isr is None:
            return
        partition.pending_isr = isr
        if len(isr) < len(partition.isr):
            self.shrinks += 1
        else:
            self.expansions += 1
        self._log.debug(
            "in-sync set proposed",
            topic=partition.topic,
            partition=partition.index,
            isr=list(isr),
            was=list(partition.isr),
        )
        self._wanted[partition.topic_id, partition.index] = _Proposal(partition)
        self._woken.set()

    async def reconsider_all(self, partitions: Iterable[Partition]) -> None:
        turn = Turn()
        for partition in partitions:
            if turn.is_over():
                await turn.next()
            with self.set_aside.guard(WORK, str(partition)):
                self.reconsider(partition)

    async def run(self) -> None:
        """Send proposals until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            while self._wanted:
                is_done = False
                with self.set_aside.guard(WORK, "proposals to the controller", (ApiError,)):
                    is_done = await self._send_some()
                if not is_done:
                    await self._clock.sleep(RETRY_SECONDS)

    async def _send_some(self) -> bool:
        """Send one request. Returns False if the next request should wait for the back-off."""
        proposals = {}
        for key in list(self._wanted)[:PARTITIONS_PER_REQUEST]:
            wanted = self._wanted.pop(key)
            if wanted.stands and wanted.partition.is_leader:
                proposals[key] = wanted
        if not proposals:
            return True
        if not self._was_refused:
            self._log.info("in-sync sets proposed", partitions=len(proposals))
        self._was_refused = False
        try:
            response = await self._channel.send(self._request(proposals))
        except ApiError as problem:
            return self._try_again(proposals, str(problem))
        except Exception as problem:
            self._try_again(proposals, f"{type(problem).__name__}: {problem}")
            raise
        if response.error_code:
            return self._try_again(proposals, name_of(response.error_code))
        is_done = True
        for topic in response.topics:
            for told in topic.partitions:
                proposal = proposals.pop((bytes(topic.topic_id), told.partition_index), None)
                if proposal is not None and not self._take(proposal, told):
                    is_done = False
        return self._try_again(proposals, "the response does not contain the partition") if proposals else is_done

    def _request(self, proposals: dict[tuple[bytes, int], _Proposal]) -> AlterPartitionRequest:
        own_epoch = self._broker_epoch()
        topics: dict[bytes, list[PartitionData]] = {}
        for (topic_id, _), proposal in proposals.items():
            topics.setdefault(topic_id, []).append(proposal.to_wire(own_epoch))
        data = [TopicData(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]
        return AlterPartitionRequest(broker_id=self._broker_id, broker_epoch=own_epoch, topics=data)

    def _try_again(self, proposals: dict[tuple[bytes, int], _Proposal], reason: str) -> bool:
        self._refusals.warning("in-sync set changes not accepted", reason, partitions=len(proposals), reason=reason)
        self._was_refused = True
        self.failed_updates += len(proposals)
        for key, proposal in proposals.items():
            if proposal.stands:
                self._wanted.setdefault(key, proposal)
        return False

    def _take(self, proposal: _Proposal, told: answer.PartitionData) -> bool:
        """Apply the controller's response for one proposal. Returns False if the proposal is undecided and is sent
        again after the back-off."""
        partition, code = proposal.partition, told.error_code
        if not proposal.stands:
            return True  # The metadata log has decided it already.
        if code == ErrorCode.NONE:
            partition.isr_decided(tuple(told.isr), told.leader_epoch, told.partition_epoch)
            self.reconsider(partition)
            return True
        self.failed_updates += 1
        self._refusals.info(
            "in-sync set refused",
            f"{partition} {code}",
            topic=partition.topic,
            partition=partition.index,
            code=name_of(code),
            isr=list(proposal.isr),
        )
        if code in WITHDRAWN:
            partition.pending_isr = None
        elif code not in AWAITS_METADATA:
            self._was_refused = True
            self._wanted.setdefault((partition.topic_id, partition.index), proposal)
            return False
        return True
