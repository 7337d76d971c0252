"""What a checkpoint costs follows what changed, and it is still the state of its moment."""

from __future__ import annotations

import pytest

from kraft.common.ids import TopicPartition
from kraft.storage.checkpoints import read_offset_checkpoint
from kraft.storage.directories.log_directory import LOGS_PER_STEP, CheckpointJob, LogDirectory
from kraft.storage.directories.offset_table import OffsetTable
from kraft.storage.log_config import LogConfig
from kraft.storage.log_manager import LogManager
from kraft.storage.unified_log import UnifiedLog
from kraft.world.steps import Steps, at_once
from tests.unit.storage.support import NOW_MS, TOPIC_ID, Machine, batch_of

HIGH_WATERMARKS, POINTS = "/data/replication-offset-checkpoint", "/data/recovery-point-offset-checkpoint"
MANY = 2 * LOGS_PER_STEP + 10


class Work:
    """The machine's one log directory, and how many partitions its checkpoints looked at."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.manager = LogManager(
            machine.files, ["/data"], node_id=1, new_uuid=lambda: bytes(16), config_of=lambda _: LogConfig()
        )
        self.manager.open(None)
        self.manager.load(NOW_MS)
        self.looked_at = 0

    @property
    def directory(self) -> LogDirectory:
        return self.manager.directories[0]

    def log(self, partition: int, records: int = 0) -> UnifiedLog:
        log = self.manager.get_or_create(TopicPartition("t", partition), TOPIC_ID, now_ms=NOW_MS)
        for _ in range(records):
            log.append_as_leader(batch_of(b"v"), 0, now_ms=NOW_MS)
        return log

    def steps(self, steps: Steps[CheckpointJob]) -> tuple[list[int], CheckpointJob]:
        """How many partitions each step looked at, and the job."""
        counts = []
        while True:
            before = self.looked_at
            try:
                next(steps)
            except StopIteration as end:
                counts.append(self.looked_at - before)
                return counts, end.value
            counts.append(self.looked_at - before)

    def high_watermarks(self, job: CheckpointJob | None = None) -> dict[TopicPartition, int]:
        """What the disk has once `job`, or one that is made now, has run."""
        (job or self.directory.high_watermark_checkpoint()).run()
        return read_offset_checkpoint(self.machine.files, HIGH_WATERMARKS)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    made = Work(Machine())
    put = OffsetTable.put

    def counted(table: OffsetTable, topic_partition: TopicPartition, offset: int) -> None:
        made.looked_at += 1
        put(table, topic_partition, offset)

    monkeypatch.setattr(OffsetTable, "put", counted)
    return made


def test_a_high_watermark_checkpoint_visits_only_logs_whose_high_watermark_moved(work: Work) -> None:
    logs = [work.log(partition) for partition in range(MANY)]
    assert len(work.high_watermarks()) == MANY
    for moved in ((), (3,), (3, 700, 1009)):
        for partition in moved:
            work.log(partition, records=1)
            logs[partition].update_high_watermark(logs[partition].log_end_offset)
        counts, job = work.steps(work.directory.gather_high_watermarks())
        assert counts == [len(moved)]
        assert bool(job.contents) == bool(moved)
        assert work.high_watermarks(job) == {log.topic_partition: log.high_watermark for log in logs}


def test_collecting_many_high_watermarks_yields_to_other_tasks(work: Work) -> None:
    for partition in range(MANY):
        work.log(partition)
    counts, _ = work.steps(work.directory.gather_high_watermarks())
    assert counts == [LOGS_PER_STEP, LOGS_PER_STEP, 10]


def test_collecting_many_recovery_points_yields_to_other_tasks(work: Work) -> None:
    for partition in range(MANY):
        work.log(partition, records=1)
    counts, job = work.steps(work.directory.gather_recovery_points())
    assert counts == [LOGS_PER_STEP, LOGS_PER_STEP, 10]
    job.run()
    assert len(read_offset_checkpoint(work.machine.files, POINTS)) == MANY


def test_every_change_of_a_high_watermark_is_in_the_next_checkpoint(work: Work) -> None:
    log, start_moves, cut, emptied = (work.log(partition, records=4) for partition in range(4))
    for each in (log, start_moves, cut, emptied):
        each.update_high_watermark(2)
    assert set(work.high_watermarks().values()) == {2}
    log.update_high_watermark(4)
    start_moves.update_high_watermark(3)
    start_moves.delete_records_before(3)
    work.manager.truncate_to(cut, 1, now_ms=NOW_MS)
    work.manager.truncate_fully_and_start_at(emptied, 9, now_ms=NOW_MS)
    assert work.high_watermarks() == {TopicPartition("t", index): at for index, at in enumerate((4, 3, 1, 9))}


def test_a_checkpoint_includes_high_watermarks_moved_and_logs_deleted_between_its_steps(work: Work) -> None:
    logs = [work.log(partition) for partition in range(MANY)]
    steps = work.directory.gather_high_watermarks()
    next(steps)
    for log in (logs[0], logs[-1]):  # One was not looked at yet, the other was.
        log.append_as_leader(batch_of(b"v"), 0, now_ms=NOW_MS)
        log.update_high_watermark(1)
    work.manager.delete(logs[1].topic_partition, now_ms=NOW_MS)
    work.manager.delete(logs[-2].topic_partition, now_ms=NOW_MS)
    del logs[-2], logs[1]
    assert work.high_watermarks(at_once(steps)) == {log.topic_partition: log.high_watermark for log in logs}


def test_a_recreated_log_does_not_inherit_the_checkpointed_high_watermark(work: Work) -> None:
    log = work.log(0, records=3)
    log.update_high_watermark(3)
    assert work.high_watermarks() == {log.topic_partition: 3}
    work.manager.delete(log.topic_partition, now_ms=NOW_MS)
    assert work.high_watermarks() == {}
    work.log(0)
    log.update_high_watermark(2)  # The old one, which somebody still holds.
    assert work.high_watermarks() == {log.topic_partition: 0}


def test_a_truncation_between_the_steps_of_a_checkpoint_lowers_the_recovery_point_on_disk(work: Work) -> None:
    """The disk must never say of a truncated log that more is durable than it has."""
    logs = [work.log(partition, records=4) for partition in range(MANY)]
    logs[0].flush()
    steps = work.directory.gather_recovery_points()
    next(steps)  # It has the recovery point of the first.
    work.manager.truncate_to(logs[0], 1, now_ms=NOW_MS)
    assert read_offset_checkpoint(work.machine.files, POINTS)[logs[0].topic_partition] == 1
    at_once(steps).run()
    assert read_offset_checkpoint(work.machine.files, POINTS)[logs[0].topic_partition] <= 1


def test_a_log_removed_between_the_steps_of_a_checkpoint_is_not_in_the_checkpoint(work: Work) -> None:
    logs = [work.log(partition, records=1) for partition in range(MANY)]
    steps = work.directory.gather_recovery_points()
    next(steps)
    for log in (logs[0], logs[-1]):
        work.manager.delete(log.topic_partition, now_ms=NOW_MS)
    at_once(steps).run()
    assert list(read_offset_checkpoint(work.machine.files, POINTS)) == [log.topic_partition for log in logs[1:-1]]
