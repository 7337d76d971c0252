"""The driver of a node that is its own quorum, over real files."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kraft.common.errors import ApiError, NotLeader
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft import wire_requests
from kraft.raft.core import messages as core
from kraft.raft.ports import LeaderAndEpoch
from tests.unit.raft.builders import key_of
from tests.unit.raft.members import alone, leading, run, until


def test_a_single_node_quorum_elects_itself_commits_and_keeps_its_records(tmp_path: Path) -> None:
    async def first() -> None:
        member = alone(tmp_path)
        async with leading(member):
            assert member.driver.append(1, ["a", "b"]) == 2
            await until(lambda: member.listener.records == ["a", "b"])
            assert member.driver.known_high_watermark() == 3
            with pytest.raises(NotLeader):
                member.driver.append(2, ["x"])

    async def second() -> None:
        member = alone(tmp_path)
        assert member.driver.known_high_watermark() is None
        async with leading(member):
            assert member.listener.records == ["a", "b"], "leadership is told after everything before it"
            assert member.driver.leader_and_epoch == LeaderAndEpoch(1, 2)

    run(first)
    run(second)


def test_concurrent_appends_share_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        member = alone(tmp_path)
        async with leading(member):
            syncs = []
            log = member.driver._storage.log
            original = log.sync
            monkeypatch.setattr(log, "sync", lambda: (syncs.append(1), original()))
            for number in range(500):
                member.driver.append(1, [str(number)])
            await until(lambda: len(member.listener.records) == 500)
            assert len(syncs) <= 3

    run(body)


def test_a_failed_sync_stops_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        member = alone(tmp_path)

        def fail() -> None:
            raise OSError(5, "Input/output error")

        with pytest.raises(BaseExceptionGroup) as failed:
            async with leading(member):
                monkeypatch.setattr(member.driver._storage.log, "sync", fail)
                member.driver.append(1, ["lost"])
                await trio.sleep(10)
        assert failed.group_contains(OSError, match="Input/output")
        assert member.listener.records == []

    run(body)


def test_large_appends_are_split_or_refused(tmp_path: Path) -> None:
    async def body() -> None:
        member = alone(tmp_path, batch_bytes_max=100)
        async with leading(member):
            with pytest.raises(ApiError) as refused:
                member.driver.append(1, ["x" * 60, "y" * 60])
            assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
            for atomic in (True, False):
                with pytest.raises(ApiError, match=r"a metadata record of 1[0-9][0-9] bytes") as refused:
                    member.driver.append(1, ["x", "y" * 101], atomic=atomic)
                assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
            member.driver.append(1, ["x" * 60, "y" * 60], atomic=False)
            await until(lambda: len(member.listener.records) == 2)

    run(body)


def test_a_snapshot_replaces_the_log_before_it(tmp_path: Path) -> None:
    async def first() -> None:
        member = alone(tmp_path, retention_bytes=1, segment_bytes=200)
        async with leading(member):
            last = [member.driver.append(1, [f"record {number}"]) for number in range(50)][-1]
            await until(lambda: member.listener.end_offset == last + 1)
            assert member.driver.create_snapshot(OffsetAndEpoch(last + 5, 1), 0) is None, "not committed yet"
            writer = member.driver.create_snapshot(OffsetAndEpoch(last + 1, 1), 123)
            assert writer is not None
            writer.append(["summary"])
            await writer.freeze()
            writer.close()
            assert member.driver.latest_snapshot == OffsetAndEpoch(last + 1, 1)
            assert member.driver.create_snapshot(OffsetAndEpoch(last + 1, 1), 123) is None
            await until(lambda: member.driver.log_start_offset == last + 1)
            member.driver.append(1, ["after"])
            await until(lambda: member.listener.records[-1] == "after")

    async def second() -> None:
        member = alone(tmp_path)
        async with leading(member):
            assert member.listener.records == ["summary", "after"]
            assert member.listener.snapshots == [51]

    run(first)
    run(second)


def test_shutdown_of_a_single_node_quorum_does_not_hang(tmp_path: Path) -> None:
    async def body() -> None:
        member = alone(tmp_path)
        with trio.move_on_after(30) as patience:
            async with trio.open_nursery() as nursery:
                await nursery.start(member.run)
                await until(lambda: member.leads)
                await member.driver.shutdown()
        assert not patience.cancelled_caught

    run(body)


def test_a_request_to_a_stopped_node_gets_an_error(tmp_path: Path) -> None:
    async def body() -> None:
        member = alone(tmp_path)

        async def ask(epoch: int) -> None:
            request = wire_requests.TO_WIRE[core.FetchRequest](
                core.FetchRequest(key_of(9), epoch, member.driver.log_end_offset, epoch, max_wait_ms=60_000)
            )
            with pytest.raises(ApiError) as refused:
                await member.driver.requests.serve(request)
            assert refused.value.code == ErrorCode.BROKER_NOT_AVAILABLE

        with trio.fail_after(3):
            async with trio.open_nursery() as nursery:
                async with leading(member):
                    nursery.start_soon(ask, 1)
                    await until(lambda: member.driver.requests._waiting)
            await ask(1)

    run(body)


@pytest.mark.parametrize("max_bytes", [0, -1, -100_000, -(2**31)])
def test_a_request_for_an_invalid_number_of_bytes_does_not_stop_the_node(tmp_path: Path, max_bytes: int) -> None:
    async def body() -> None:
        member = alone(tmp_path)
        async with leading(member):
            end = member.driver.append(1, ["one"]) + 1
            await until(lambda: member.listener.end_offset == end)
            writer = member.driver.create_snapshot(OffsetAndEpoch(end, 1), 1)
            assert writer is not None
            writer.append(["summary"])
            await writer.freeze()
            writer.close()
            fetch = wire_requests.TO_WIRE[core.FetchRequest](
                core.FetchRequest(key_of(9), 1, 0, 0, max_wait_ms=0, max_bytes=max_bytes)
            )
            assert (await member.driver.requests.serve(fetch)).responses[0].partitions[0].error_code == ErrorCode.NONE
            piece = wire_requests.TO_WIRE[core.FetchSnapshotRequest](
                core.FetchSnapshotRequest(key_of(9), 1, OffsetAndEpoch(end, 1), 0, max_bytes)
            )
            assert (await member.driver.requests.serve(piece)).topics[0].partitions[0].unaligned_records == b""
            member.driver.append(1, ["after"])
            await until(lambda: member.listener.records[-1] == "after")

    run(body)
