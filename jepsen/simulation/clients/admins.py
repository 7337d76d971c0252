"""Administrators that change the cluster while faults strike: they reassign replicas, elect leaders, delete records,
and add and remove voters."""

from __future__ import annotations

from typing import Any, Final

import trio

from jepsen.checker.operations import DeleteRecords, Partition
from jepsen.simulation.clients.readers import Reader
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, Session, Unanswered
from jepsen.simulation.layouts import CLUSTER_ID, CONTROLLER_PORT, Layout
from jepsen.simulation.recorder import Recorder
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest

METADATA: Final = DescribeQuorumRequest(
    topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
)
PREFERRED: Final = 0
REPLICAS: Final = 3
VOTERS_LEAST: Final = 2
MOVES_PASS: Final[set[int]] = {*TRY_AGAIN, ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
ELECTIONS_PASS: Final[set[int]] = {
    *TRY_AGAIN,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}
DELETES_PASS: Final[set[int]] = {*TRY_AGAIN, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.POLICY_VIOLATION}
VOTERS_PASS: Final[set[int]] = {
    *TRY_AGAIN,
    ErrorCode.VOTER_NOT_FOUND,
    ErrorCode.DUPLICATE_VOTER,
    ErrorCode.INVALID_REQUEST,
}


class Mover:
    """Reassigns partitions to any three brokers, cancels some reassignments, and elects preferred leaders."""

    def __init__(self, session: Session, places: tuple[Partition, ...], brokers: tuple[str, ...]) -> None:
        self._session = session
        self._places = places
        self._brokers = tuple(int(broker) for broker in brokers)
        self.stopping = trio.Event()

    async def run(self) -> None:
        chance = self._session.chance
        while not self.stopping.is_set():
            place = chance.choice(self._places)
            try:
                if chance.random() < 0.5:
                    await elect(self._session, place)
                else:
                    replicas = None if chance.random() < 0.2 else chance.sample(self._brokers, REPLICAS)
                    await reassign(self._session, place, replicas)
            except Unanswered:
                await self._session.pause(0.5)
            await self._session.pause(4.0)
        self._session.close()


async def reassign(session: Session, place: Partition, replicas: list[int] | None) -> None:
    """Request these replicas, in this order, for a partition; None cancels the reassignment under way. Raises
    Unanswered."""
    topic, index = place
    moved = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
    response = await session.call(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[moved]), 0, 1)
    codes = [
        response.error_code,
        *(partition.error_code for topic in response.responses for partition in topic.partitions),
    ]
    _only(codes, MOVES_PASS, "AlterPartitionReassignments")


async def elect(session: Session, place: Partition) -> None:
    """Request the election of the preferred leader. Raises Unanswered."""
    topic, index = place
    request = ElectLeadersRequest(
        election_type=PREFERRED,
        topic_partitions=[TopicPartitions(topic=topic, partitions=[index])],
        timeout_ms=5000,
    )
    response = await session.call(request, 0, 2)
    codes = [
        response.error_code,
        *(result.error_code for each in response.replica_election_results for result in each.partition_result),
    ]
    _only(codes, ELECTIONS_PASS, "ElectLeaders")


class Deleter:
    """Deletes the older records of a partition at random times."""

    def __init__(self, session: Session, recorder: Recorder, place: Partition) -> None:
        self._session = session
        self._recorder = recorder
        self._place = place
        self._reader = Reader(session, recorder, place)
        self.stopping = trio.Event()

    async def run(self) -> None:
        while not self.stopping.is_set():
            await self._session.pause(4.0)
            end = await self._reader.ask("latest")
            if end:
                await self._delete(self._session.chance.randint(0, end))
        self._session.close()

    async def _delete(self, before: int) -> None:
        topic, index = self._place
        made = self._recorder.add(
            DeleteRecords(
                process=self._session.name, began=self._recorder.now(), topic=topic, partition=index, before=before
            )
        )
        partitions = [DeleteRecordsPartition(partition_index=index, offset=before)]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=5000)
        try:
            await self._session.aim(self._place)
            response = await self._session.call(request, 0, 2)
        except Unanswered:
            made.ended = self._recorder.now()
            return
        answer = response.topics[0].partitions[0]
        made.ended = self._recorder.now()
        _only([answer.error_code], DELETES_PASS, "DeleteRecords")
        if answer.error_code == ErrorCode.NONE:
            made.low_watermark = answer.low_watermark
            made.ok(self._recorder.now())


class VoterChanger:
    """Adds and removes voters, one at a time; at least two voters always remain."""

    def __init__(self, session: Session, layout: Layout) -> None:
        self._session = session
        self._layout = layout
        self.stopping = trio.Event()

    async def run(self) -> None:
        while not self.stopping.is_set():
            await self._session.pause(5.0)
            try:
                await self._change()
            except Unanswered:
                await self._session.pause(0.5)
        self._session.close()

    async def grow_to(self, count: int) -> None:
        """Add voters until there are `count`."""
        while True:
            try:
                quorum = await self._quorum()
                if quorum is not None and len(quorum.current_voters) >= count:
                    return
                if quorum is not None:
                    await self._add(quorum)
            except Unanswered:
                pass
            await self._session.pause(0.3)

    async def _quorum(self) -> Any:
        response = await self._session.call(METADATA, 2, 2)
        codes = [response.error_code, *(part.error_code for topic in response.topics for part in topic.partitions)]
        _only(codes, VOTERS_PASS, "DescribeQuorum")
        return None if any(codes) else response.topics[0].partitions[0]

    async def _change(self) -> None:
        quorum = await self._quorum()
        if quorum is None:
            return
        if len(quorum.current_voters) > VOTERS_LEAST and self._session.chance.random() < 0.5:
            gone = self._session.chance.choice(quorum.current_voters)
            request = RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID, voter_id=gone.replica_id, voter_directory_id=gone.replica_directory_id
            )
            response = await self._session.call(request, 0, 0)
            _only([response.error_code], VOTERS_PASS, "RemoveRaftVoter")
        else:
            await self._add(quorum)

    async def _add(self, quorum: Any) -> None:
        able = [observer for observer in quorum.observers if str(observer.replica_id) in self._layout.controllers]
        if not able:
            return
        new = self._session.chance.choice(able)
        listeners = [Listener(name="CONTROLLER", host=f"node-{new.replica_id}", port=CONTROLLER_PORT)]
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=5000,
            voter_id=new.replica_id,
            voter_directory_id=new.replica_directory_id,
            listeners=listeners,
        )
        response = await self._session.call(request, 0, 1)
        _only([response.error_code], VOTERS_PASS, "AddRaftVoter")


def _only(codes: list[int], passing: set[int], what: str) -> None:
    for code in codes:
        if code != ErrorCode.NONE and code not in passing:
            raise Refused(what, code)
