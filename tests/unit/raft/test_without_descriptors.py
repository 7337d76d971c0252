"""No descriptor, or no memory, is left for a while: the node of a quorum waits or refuses one request, and says
nothing false. It does not end."""

from __future__ import annotations

import errno
import math
from pathlib import Path

import pytest
import trio

from kraft.common.errors import OutOfResources
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft import wire_requests
from kraft.raft.core import messages as core
from kraft.raft.core.effects import SnapshotChunk
from kraft.raft.core.voter_set import VoterSet
from kraft.raft.metadata_log import MetadataLog
from kraft.raft.quorum_storage import QuorumStorage
from kraft.world.simulated.disk import Fault
from tests.unit.raft.builders import RecordingListener, TextSerde, data_batch, key_of
from tests.unit.raft.members import Member, alone, leading, until
from tests.unit.storage.support import Machine

DATA = Path("/data")
NONE_LEFT = (errno.EMFILE, errno.ENFILE)


def member_of(machine: Machine, **options: int) -> Member:
    return alone(DATA, machine.files, **options)  # type: ignore[arg-type]  # It is a file system, if no real one.


def fault(machine: Machine, operation: str, within: str, *, times: float = math.inf, code: int = errno.EMFILE) -> Fault:
    machine.disk.faults.append(Fault(operation, code, within, times))
    return machine.disk.faults[-1]


async def snapshot_of(member: Member) -> OffsetAndEpoch:
    last = member.driver.append(1, ["more"])
    await until(lambda: member.listener.end_offset == last + 1)
    writer = member.driver.create_snapshot(OffsetAndEpoch(last + 1, 1), 1)
    assert writer is not None
    writer.append(["summary"])
    await writer.freeze()
    writer.close()
    await until(lambda: not member.driver._clean_wanted)
    return OffsetAndEpoch(last + 1, 1)


def test_snapshots_that_cannot_be_opened_for_lack_of_descriptors_are_deleted_later() -> None:
    async def body() -> None:
        machine = Machine()
        member = member_of(machine, retention_ms=1 << 60)
        async with leading(member):
            first, second = await snapshot_of(member), await snapshot_of(member)
            object.__setattr__(member.driver.config, "retention_ms", 0)
            missing = fault(machine, "open", ".checkpoint")
            member.driver.clean()
            await until(lambda: not member.driver._clean_wanted)
            member.driver.append(1, ["goes on"])
            await until(lambda: member.listener.records[-1] == "goes on")
            assert list(member.driver._node.log.snapshots) == [first, second]
            missing.times = 0
            member.driver.clean()
            await until(lambda: member.driver._node.log.snapshots == [second])

    trio.run(body)


@pytest.mark.parametrize(
    ("operation", "within", "code"), [("open", ".checkpoint", errno.EMFILE), ("pread", ".log", errno.ENOMEM)]
)
def test_a_listener_gets_a_snapshot_or_records_later_when_descriptors_are_short(
    operation: str, within: str, code: int
) -> None:
    async def body() -> None:
        machine = Machine()
        member = member_of(machine, retention_ms=0 if within == ".checkpoint" else 1 << 60)
        async with leading(member):
            if within == ".checkpoint":
                await snapshot_of(member)
            late = RecordingListener()
            member.driver._recent.clear()
            missing = fault(machine, operation, within, times=2, code=code)
            member.driver.register(late)
            await until(lambda: late.end_offset >= 1)
            assert missing.times == 0

    trio.run(body)


def test_a_fetch_that_lacks_a_descriptor_gets_a_retriable_error() -> None:
    async def body() -> None:
        machine = Machine()
        member = member_of(machine)
        async with leading(member):
            fault(machine, "pread", ".log", times=1, code=errno.ENOMEM)
            errors = []
            for _ in range(2):
                request = wire_requests.TO_WIRE[core.FetchRequest](core.FetchRequest(key_of(7), 1, 0, 0, -1))
                partition = (await member.driver.requests.serve(request)).responses[0].partitions[0]
                errors.append((partition.error_code, bool(partition.records)))
            assert errors == [(ErrorCode.KAFKA_STORAGE_ERROR, False), (ErrorCode.NONE, True)]

    trio.run(body)


@pytest.mark.parametrize(
    ("operation", "within"), [("open", "quorum-state.tmp"), ("sync_directory", "__cluster_metadata")]
)
def test_an_election_waits_for_a_free_descriptor(operation: str, within: str) -> None:
    async def body() -> None:
        machine = Machine()
        member = member_of(machine)
        missing = fault(machine, operation, within, times=3)
        async with leading(member):
            assert missing.times == 0

    trio.run(body)


def test_a_truncation_that_lacked_a_descriptor_finishes_when_retried() -> None:
    machine = Machine()
    log = MetadataLog.open(machine.files, "/data/log", segment_bytes=500)
    for _ in log.recover():
        pass
    for offset in range(20):
        log.append([data_batch(offset, "x" * 50)], offset + 1)
    log.sync()
    fault(machine, "sync_directory", "log", times=1)
    with pytest.raises(OutOfResources):
        log.truncate_to(7)
    log.truncate_to(7)
    log.sync()
    machine.power_off()
    again = MetadataLog.open(machine.files, "/data/log", segment_bytes=500)
    assert [batch.base_offset for batch in again.recover()] == list(range(7))


@pytest.mark.parametrize("times", [1, 2])
def test_a_snapshot_download_that_lacked_a_descriptor_can_be_restarted(times: int) -> None:
    machine = Machine()
    storage = QuorumStorage(machine.files, "/data", TextSerde(), segment_bytes=1 << 20)
    state = storage.recover(VoterSet())
    snapshot = OffsetAndEpoch(5, 1)
    writer = storage.begin_snapshot(snapshot, state.history, 0, WorldOf(machine), lambda _: None)  # type: ignore[arg-type]
    writer.append(["summary"])
    writer.freeze_blocking()
    data, _ = storage.read_snapshot(snapshot, 0, 1 << 20)
    fault(machine, "open", "download", times=times)
    for _ in range(times):
        with pytest.raises(OutOfResources):
            storage.write_chunk(SnapshotChunk(snapshot, 0, data, True))
    storage.write_chunk(SnapshotChunk(snapshot, 0, data, True))
    fault(machine, "open", "download", times=1)
    with pytest.raises(OutOfResources):
        storage.finish_download(snapshot)
    storage.write_chunk(SnapshotChunk(snapshot, 0, data, True))
    storage.finish_download(snapshot)
    assert storage.read_snapshot(snapshot, 0, 1 << 20) == (data, len(data))


class WorldOf:
    """As much of a world as a snapshot's writer looks at."""

    def __init__(self, machine: Machine) -> None:
        self.clock = self
        self.threads = None
        self._machine = machine

    def wall_ms(self) -> int:
        return self._machine.wall_ms
