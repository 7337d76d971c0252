"""What a consumer does where something fails between two records: nothing is given twice, nothing is passed over,
and what can be read is read."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft.admin.offsets import EARLIEST
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import EpochEndOffset, FetchResponse
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from kraft.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kraft.protocol.messages.list_offsets_request import ListOffsetsRequest
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from kraft.protocol.messages.sync_group_request import SyncGroupRequest
from kraft.protocol.messages.sync_group_response import SyncGroupResponse
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import CorruptBatch, Record
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected, UnsupportedApi
from kraft.rpc_client.consumer import Consumer
from kraft.rpc_client.consumer_membership import ConsumerMembership
from kraft.rpc_client.group_consumer import CLASSIC, CONSUMER, GroupConsumer, open_group_consumer
from kraft.world.simulated import Universe
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster, begins, fetched, wanted

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(offset: int, epoch: int = 4) -> bytes:
    return build_batch([Record(offset, 0, None, b"%d" % offset)], base_offset=offset, leader_epoch=epoch)


def test_records_before_a_damaged_batch_are_returned_once_before_the_error() -> None:
    damaged = bytearray(batch(1))
    damaged[-2] ^= 1

    async def answer(request: FetchRequest, _: int | None) -> Any:
        return fetched({T0: (ErrorCode.NONE, (batch(0) if wanted(request)[T0] == 0 else b"") + bytes(damaged))})

    async def main(universe: Universe) -> None:
        consumer = Consumer(ScriptedCluster(universe, {"t": [1]}, answer))
        consumer.assign({T0: 0})
        assert [each.record.value for each in await consumer.poll(1.0)] == [b"0"]
        with pytest.raises(CorruptBatch):
            await consumer.poll(1.0)

    Universe(1).run(main)


def test_a_position_that_cannot_be_reset_loses_no_records_of_other_partitions() -> None:
    async def answer(request: Any, _: int | None) -> Any:
        assert not isinstance(request, ListOffsetsRequest)
        at = wanted(request)
        return fetched(
            {T0: (ErrorCode.NONE, batch(at[T0])), **({T1: (ErrorCode.OFFSET_OUT_OF_RANGE, b"")} if T1 in at else {})}
        )

    async def main(universe: Universe) -> None:
        consumer = Consumer(ScriptedCluster(universe, {"t": [1, 1]}, answer))
        consumer.assign({T0: 0, T1: 7})
        with pytest.raises(ApiError, match="offset 7 is not in the log"):
            await consumer.poll(1.0)
        consumer.unassign(T1)
        assert [each.record.offset for each in await consumer.poll(1.0)] == [0]

    Universe(1).run(main)


def test_a_moved_leader_is_looked_up_while_other_partitions_have_records() -> None:
    async def answer(request: Any, node_id: int | None) -> Any:
        found = {}
        for partition, offset in wanted(request).items():
            leads = node_id == (1 if partition == T0 else 2)
            found[partition] = (ErrorCode.NONE, batch(offset)) if leads else (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
        return fetched(found)

    async def main(universe: Universe) -> None:
        cluster = ScriptedCluster(universe, {"t": [1, 1]}, answer)
        await cluster.topic("t")
        cluster.leaders["t"] = [1, 2]
        consumer = Consumer(cluster)
        consumer.assign({T0: 0, T1: 0})
        for _ in range(10):
            await consumer.poll(1.0)
        assert consumer.positions[T1] > 0

    Universe(1).run(main)


def test_a_partition_without_a_leader_delays_no_other_partition() -> None:
    async def answer(request: Any, _: int | None) -> Any:
        return fetched({partition: (ErrorCode.NONE, batch(offset)) for partition, offset in wanted(request).items()})

    async def main(universe: Universe) -> None:
        cluster = ScriptedCluster(universe, {"t": [1, -1]}, answer)
        consumer = Consumer(cluster)
        consumer.assign({T0: 0, T1: 0})
        assert [each.record.offset for each in await consumer.poll(1.0)] == [0]
        cluster.leaders["t"] = [1, 1]
        found = [each.partition for _ in range(5) for each in await consumer.poll(1.0)]
        assert T1 in found

    Universe(1).run(main)


def test_a_slow_leader_is_not_starved_by_a_fast_one() -> None:
    async def main(universe: Universe) -> None:
        clock = universe.world_for("client").clock
        ready: list[tuple[Any, float]] = []  # When the slow leader answers each request.

        async def answer(request: Any, node_id: int | None) -> Any:
            if node_id == 1:
                await clock.sleep(0.05)
            else:
                if not any(request is known for known, _ in ready):
                    ready.append((request, clock.now() + 0.3))
                await clock.sleep_until(next(at for known, at in ready if known is request))
            return fetched(
                {partition: (ErrorCode.NONE, batch(offset)) for partition, offset in wanted(request).items()}
            )

        consumer = Consumer(ScriptedCluster(universe, {"t": [1, 2]}, answer))
        consumer.assign({T0: 0, T1: 0})
        found = [each.partition for _ in range(30) for each in await consumer.poll(1.0)]
        assert 2 <= found.count(T1) <= 5
        assert found.count(T0) >= 25, "nor does the fast one wait for it"
        assert consumer.positions == {T0: found.count(T0), T1: found.count(T1)}

    Universe(1).run(main)


def test_a_fetch_response_for_an_abandoned_position_is_dropped() -> None:
    async def main(universe: Universe) -> None:
        clock = universe.world_for("client").clock

        async def answer(request: Any, node_id: int | None) -> Any:
            await clock.sleep(0.1 if node_id == 1 else 0.3)
            return fetched(
                {partition: (ErrorCode.NONE, batch(offset)) for partition, offset in wanted(request).items()}
            )

        consumer = Consumer(ScriptedCluster(universe, {"t": [1, 2]}, answer))
        consumer.assign({T0: 0, T1: 0})
        assert [each.partition for each in await consumer.poll(1.0)] == [T0]
        consumer.seek(T1, 7)
        consumer.unassign(T0)
        assert [(each.partition, each.record.offset) for each in await consumer.poll(2.0)] == [(T1, 7)]

    Universe(1).run(main)


def test_a_temporarily_unreadable_partition_backs_off_alone() -> None:
    async def main(universe: Universe) -> None:
        clock = universe.world_for("client").clock
        began = clock.now()
        asked: list[float] = []

        async def answer(request: Any, _: int | None) -> Any:
            """A record of the first partition every 20 ms, and an error of the second at once."""
            at = wanted(request)
            if T1 in at:
                asked.append(clock.now() - began)
                return fetched({T0: (ErrorCode.NONE, b""), T1: (ErrorCode.REPLICA_NOT_AVAILABLE, b"")})
            await clock.sleep_until(began + at[T0] * 0.02)
            return fetched({T0: (ErrorCode.NONE, batch(at[T0]))})

        consumer = Consumer(ScriptedCluster(universe, {"t": [1, 1]}, answer))
        consumer.assign({T0: 0, T1: 0})
        while clock.now() < began + 4.0:
            await consumer.poll(1.0)
        assert consumer.positions[T0] > 150
        assert 4 <= len(asked) <= 10, "with a growing pause"
        consumer.unassign(T0)
        assert await consumer.poll(1.0) == []
        assert "t-1" in str(consumer.obstacle)  # When there is nothing else to wait for.

    Universe(1).run(main)


class CutLog:
    """Ten records of epoch 3, until the leader of epoch 5 has eight of them, and then its own."""

    def __init__(self) -> None:
        self.is_cut = False

    async def __call__(self, request: FetchRequest, _: int | None) -> FetchResponse:
        [(partition, offset)] = wanted(request).items()
        if self.is_cut and request.topics[0].partitions[0].last_fetched_epoch == 3 and offset > 8:
            answer = fetched({partition: (ErrorCode.NONE, b"")})
            answer.responses[0].partitions[0].diverging_epoch = EpochEndOffset(epoch=3, end_offset=8)
            return answer
        return fetched({partition: (ErrorCode.NONE, batch(offset, 5 if self.is_cut else 3))})


def test_after_a_truncation_the_consumer_continues_at_the_divergence_or_reports_it() -> None:
    async def main(universe: Universe) -> None:
        log = CutLog()
        cluster = ScriptedCluster(universe, {"t": [1]}, log)
        consumer, strict = Consumer(cluster, reset=EARLIEST), Consumer(cluster)
        for each in (consumer, strict):
            each.assign({T0: 9})
            await each.poll(1.0)
        log.is_cut = True
        found = [each.record.offset for _ in range(3) for each in await consumer.poll(1.0)]
        assert found == [8, 9, 10], "not from 10 on, and not from the beginning"
        with pytest.raises(KraftError, match=r"t-0: was read up to offset 10 in leader epoch 3.*up to offset 8"):
            await strict.poll(1.0)

    Universe(1).run(main)


class Scene:
    """A group of one member, whose records are there as often as they are asked for."""

    def __init__(
        self, universe: Universe, monkeypatch: pytest.MonkeyPatch, *, joins: bool = False, leaves: bool = False
    ) -> None:
        """`joins` and `leaves`: it asks the coordinator for that, which the test plays."""
        self.commits: list[dict[TopicPartition, int]] = []
        self.failures = 0
        self.epochs: list[dict[TopicPartition, int]] = []

        async def answer(request: Any, _: int | None) -> Any:
            if isinstance(request, ListOffsetsRequest):
                return begins(request)
            return fetched(
                {partition: (ErrorCode.NONE, batch(offset)) for partition, offset in wanted(request).items()}
            )

        async def commit(
            cluster: Any, group_id: str, offsets: dict[TopicPartition, int], epochs: dict[TopicPartition, int], **_: Any
        ) -> None:
            self.commits.append(dict(offsets))
            self.epochs.append(dict(epochs))

        async def committed(*_: Any, require_stable: bool) -> dict[TopicPartition, Any]:
            assert require_stable, "an open transaction may be about to move them"
            if self.failures:
                self.failures -= 1
                raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not now")
            return {}

        async def join(membership: Any) -> None:
            membership.member_id, membership.generation, membership.assigned, membership.must_join = (
                "m",
                1,
                (T0,),
                False,
            )

        async def leave(_: Any) -> None: ...

        monkeypatch.setattr("kraft.admin.groups.commit_offsets", commit)
        monkeypatch.setattr("kraft.admin.groups.committed_offsets", committed)
        if not joins:
            monkeypatch.setattr("kraft.rpc_client.group_membership.GroupMembership.join", join)
        if not leaves:
            monkeypatch.setattr("kraft.rpc_client.group_membership.GroupMembership.leave", leave)
        self.cluster = ScriptedCluster(universe, {"t": [1]}, answer)


def test_records_last_returned_to_a_failing_reader_are_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, monkeypatch)
        with pytest.raises(ValueError, match="cannot write"):
            async with open_group_consumer(scene.cluster, "g", ["t"], reset=EARLIEST) as member:
                await member.poll(1.0)
                assert await member.commit()
                await member.poll(1.0)
                raise ValueError("cannot write this down")
        assert scene.commits == [{T0: 1}], "the second record was given, and never done"
        assert scene.epochs == [{T0: 4}], "whoever reads on from there can tell whether the log was cut"

    Universe(1).run(main)


def test_records_last_returned_to_a_cancelled_reader_are_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, monkeypatch)
        with scene.cluster.world.clock.move_on_after(2.0):
            async with open_group_consumer(scene.cluster, "g", ["t"], reset=EARLIEST) as member:
                await member.poll(1.0)
                assert await member.commit()
                await member.poll(1.0)
                await trio.sleep_forever()  # At work on the second record.
        assert scene.commits == [{T0: 1}]

    Universe(1).run(main)


def test_a_reader_cancelled_while_waiting_has_processed_all_returned_records(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, monkeypatch)
        with trio.CancelScope() as reading:
            async with open_group_consumer(scene.cluster, "g", ["t"], reset=EARLIEST) as member:
                await member.poll(1.0)
                reading.cancel()
                await member.poll(1.0)
        assert scene.commits == [{T0: 1}]

    Universe(1).run(main)


def test_a_member_that_could_not_look_up_its_positions_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, monkeypatch)
        scene.failures = 1
        async with open_group_consumer(scene.cluster, "g", ["t"], reset=EARLIEST) as member:
            with pytest.raises(ApiError):
                await member.poll(1.0)
            found = [each.record.offset for _ in range(3) for each in await member.poll(1.0)]
        assert found == [0, 1, 2]

    Universe(1).run(main)


def test_a_heartbeat_response_of_an_earlier_generation_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, monkeypatch)
        member = GroupConsumer(scene.cluster, "g", ["t"], reset=EARLIEST, isolation=0, instance_id=None).membership

        async def answer(_: str, request: HeartbeatRequest, **__: Any) -> HeartbeatResponse:
            member.generation = 2  # It has joined again while the heartbeat was under way.
            return HeartbeatResponse(
                error_code=ErrorCode.ILLEGAL_GENERATION if request.generation_id == 1 else ErrorCode.NONE
            )

        monkeypatch.setattr(scene.cluster, "call_coordinator", answer)
        await member.join()
        with scene.cluster.world.clock.move_on_after(10.0):
            await member.heartbeat()
        assert (member.member_id, member.generation, member.must_join) == ("m", 2, False)

    Universe(1).run(main)


@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER])
def test_poll_reports_a_heartbeat_unknown_to_the_next_coordinator(
    monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, monkeypatch)

        async def refuse(*_: Any, **__: Any) -> Any:
            raise UnsupportedApi("older than that")

        async def join(membership: Any) -> None:
            membership.generation, membership.assigned, membership.must_join = 1, (T0,), False

        monkeypatch.setattr(scene.cluster, "call_coordinator", refuse)
        monkeypatch.setattr(scene.cluster, "coordinator", refuse)
        monkeypatch.setattr("kraft.rpc_client.consumer_membership.ConsumerMembership.join", join)
        async with open_group_consumer(scene.cluster, "g", ["t"], reset=EARLIEST, protocol=protocol) as member:
            await member.poll(1.0)
            await universe.sleep(5.0)
            with pytest.raises(UnsupportedApi):
                await member.poll(1.0)

    Universe(1).run(main)


def test_a_busy_member_sends_heartbeats_during_a_rebalance_and_leaves_after_max_poll_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, monkeypatch, leaves=True)
        told: list[tuple[float, str]] = []

        async def answer(_: str, request: Any, **__: Any) -> Any:
            told.append((scene.cluster.world.clock.now(), type(request).__name__))
            return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)

        monkeypatch.setattr(scene.cluster, "call_coordinator", answer)
        async with open_group_consumer(scene.cluster, "g", ["t"], reset=EARLIEST) as member:
            await member.poll(1.0)
            began = scene.cluster.world.clock.now()
            await universe.sleep(290.0)
            assert len(told) > 90, "others wait for it, the group does not lose it"
            assert member.membership.must_join
            assert member.membership.generation == 1
            await universe.sleep(100.0)
            assert told[-1][1] == "LeaveGroupRequest"
            assert 300 <= told[-1][0] - began < 310
            assert not await member.commit(), "it is no member any more"
            assert [each.record.offset for each in await member.poll(1.0)] == [0], (
                "what it did not commit is read again"
            )
            assert member.membership.generation == 1

    Universe(1).run(main, seconds_max=1000.0)


def test_a_heartbeat_answered_while_the_member_joins_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, monkeypatch, joins=True)
        member = GroupConsumer(scene.cluster, "g", ["t"], reset=EARLIEST, isolation=0, instance_id=None).membership
        member.member_id, member.generation = "m", 1

        async def answer(_: str, request: Any, **__: Any) -> Any:
            if isinstance(request, HeartbeatRequest):
                await universe.sleep(2.0)
                return HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
            await universe.sleep(100.0)
            return JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

        monkeypatch.setattr(scene.cluster, "call_coordinator", answer)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.heartbeat)
            await universe.sleep(4.0)  # The first heartbeat is under way.
            with pytest.raises(ApiError):
                await member.join()
            assert (member.member_id, member.generation) == ("m", 1)
            nursery.cancel_scope.cancel()

    Universe(1).run(main, seconds_max=1000.0)


def test_with_the_consumer_protocol_a_heartbeat_sent_before_the_join_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, monkeypatch)
        member = ConsumerMembership(scene.cluster, "g", ["t"])
        member.generation = 1

        async def coordinator(_: str) -> int:
            return 1

        async def answer(request: ConsumerGroupHeartbeatRequest, **_: Any) -> ConsumerGroupHeartbeatResponse:
            if request.member_epoch == 1:
                await universe.sleep(2.0)  # A former coordinator is slow to tell that it is none of it.
                return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            return ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=5)

        async def version_of(*_: Any, **__: Any) -> int:
            return 1

        for name, fake in (("coordinator", coordinator), ("call", answer), ("version_of", version_of)):
            monkeypatch.setattr(scene.cluster, name, fake)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.heartbeat)
            await universe.sleep(1.5)  # The first heartbeat is under way.
            member.forget()
            await member.join()
            assert (member.generation, member.must_join) == (5, False)
            await universe.sleep(2.0)
            assert (member.generation, member.must_join) == (5, False)
            nursery.cancel_scope.cancel()

    Universe(1).run(main)


def test_a_topic_deleted_before_its_name_is_resolved_delays_no_other_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, monkeypatch)
        member = ConsumerMembership(scene.cluster, "g", ["t", "gone"])
        known = TopicPartitions(topic_id=scene.cluster.topic_id("t"), partitions=[0])
        told = [[known, TopicPartitions(topic_id=b"a deleted topic.", partitions=[0])], [known]]

        async def answer(request: ConsumerGroupHeartbeatRequest, _: int | None) -> ConsumerGroupHeartbeatResponse:
            wanted = Assignment(topic_partitions=told.pop(0)) if told else None
            return ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=5, assignment=wanted)

        async def nothing(*_: Any, **__: Any) -> int:
            return 1

        scene.cluster.answer = answer
        monkeypatch.setattr(scene.cluster, "coordinator", nothing)
        monkeypatch.setattr(scene.cluster, "version_of", nothing)
        with scene.cluster.world.clock.move_on_after(5.0):
            await member.join()
        assert (member.assigned, member.must_join) == ((T0,), False)

    Universe(1).run(main)


def test_added_partitions_are_discovered_and_assigned_by_the_group_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, monkeypatch, joins=True)
        cluster = scene.cluster
        member = GroupConsumer(cluster, "g", ["t"], reset=EARLIEST, isolation=0, instance_id=None).membership

        async def answer(_: str, request: Any, **__: Any) -> Any:
            if isinstance(request, JoinGroupRequest):
                joined = JoinGroupResponseMember(member_id="m", metadata=request.protocols[0].metadata)
                return JoinGroupResponse(member_id="m", leader="m", generation_id=1, members=[joined])
            if isinstance(request, SyncGroupRequest):
                return SyncGroupResponse(assignment=request.assignments[0].assignment)
            return HeartbeatResponse()

        monkeypatch.setattr(cluster, "call_coordinator", answer)
        await member.join()
        assert member.assigned == (T0,)
        assert len((await cluster.topic("t")).partitions) == 1
        cluster.leaders["t"] = [1, 1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.heartbeat)
            await universe.sleep(290.0)
            assert not member.must_join
            assert cluster.metadata_asked <= 2
            await universe.sleep(20.0)
            assert member.must_join
            nursery.cancel_scope.cancel()
        assert len((await cluster.topic("t")).partitions) == 2
        await member.join()
        assert member.assigned == (T0, T1)

    Universe(1).run(main, seconds_max=1000.0)


def test_an_unresponsive_node_does_not_prevent_connections_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(universe: Universe) -> None:
        clock = universe.world_for("client").clock

        class Connection:
            is_open, versions = True, {1: (0, 1)}

            async def call(self, *_: Any, **__: Any) -> Any:
                return MetadataResponse(
                    brokers=[
                        MetadataResponseBroker(node_id=each, host=host, port=1)
                        for each, host in ((1, "mute"), (2, "well"))
                    ]
                )

            def close(self) -> None: ...

        async def opening(_: Any, host: str, port: int, **__: Any) -> Any:
            if host == "mute":
                await clock.sleep(10.0)
                raise TimeoutError(f"{host}:{port} did not answer")
            return Connection()

        monkeypatch.setattr("kraft.rpc_client.cluster.open_connection", opening)
        cluster = Cluster(universe.world_for("client"), [("first", 1)])
        await cluster.metadata()

        async def ask_mute() -> None:
            with pytest.raises(TimeoutError):
                await cluster.versions(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_mute)
            await universe.sleep(0.1)
            with clock.move_on_after(1.0) as waiting:
                assert await cluster.versions(2) == {1: (0, 1)}
            assert not waiting.cancelled_caught

    Universe(1).run(main)


def test_after_an_error_another_node_is_asked_when_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(universe: Universe) -> None:
        dead = ["well"]
        asked: list[str] = []

        class Connection:
            is_open = True

            def __init__(self, host: str) -> None:
                self.host = host

            async def call(self, *_: Any, **__: Any) -> Any:
                asked.append(self.host)
                return MetadataResponse(
                    brokers=[
                        MetadataResponseBroker(node_id=each, host=host, port=1)
                        for each, host in ((1, "isolated"), (2, "well"))
                    ]
                )

            def close(self) -> None: ...

        async def opening(_: Any, host: str, *__: Any, **___: Any) -> Any:
            if host in dead:
                raise Disconnected("refused")
            return Connection(host)

        monkeypatch.setattr("kraft.rpc_client.cluster.open_connection", opening)
        cluster = Cluster(universe.world_for("client"), [("isolated", 1)])
        for _ in range(2):
            await cluster.metadata()
            cluster.forget()
        assert asked == ["isolated", "isolated"], "there is no other"
        dead.clear()
        for _ in range(2):
            await cluster.metadata()
        assert asked[2:] == ["well", "well"]
        cluster.forget()
        await cluster.metadata()
        assert asked[4:] == ["isolated"]

    Universe(1).run(main)
