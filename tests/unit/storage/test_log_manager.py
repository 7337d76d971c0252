"""All logs of a broker: directories, identity, start, stop, deletion, failing disks."""

from __future__ import annotations

import errno

import pytest

from kraft.common.errors import ConfigurationError, CorruptData, StorageError
from kraft.common.ids import TopicPartition, Uuid
from kraft.storage.checkpoints import read_file, read_offset_checkpoint, write_file
from kraft.storage.directories.log_directory import CheckpointJob
from kraft.storage.directories.meta_properties import (
    MetaProperties,
    parse_properties,
    read_meta_properties,
    write_meta_properties,
)
from kraft.storage.log_config import LogConfig
from kraft.storage.log_manager import LogManager
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated.disk import Fault
from tests.unit.storage.managed_logs import log_from_35_to_40, manager_on, uuids
from tests.unit.storage.support import NOW_MS, T0, TOPIC_ID, Machine, batch_of, content


@pytest.fixture
def machine() -> Machine:
    return Machine()


T1 = TopicPartition("other.topic-name", 3)


def stop(manager: LogManager, broker_epoch: int = 7) -> None:
    list(manager.close_logs())
    manager.finish_shutdown(broker_epoch)


def test_a_clean_shutdown_marker_is_consumed_at_startup_and_skips_recovery(machine: Machine) -> None:
    manager = manager_on(machine)
    for topic_partition in (T0, T1):
        log = manager.get_or_create(topic_partition, TOPIC_ID, now_ms=NOW_MS)
        log.append_as_leader(batch_of(b"a", b"b"), 0, now_ms=NOW_MS)
        log.update_high_watermark(2)
        log.delete_records_before(1)
    stop(manager)
    assert read_file(machine.files, "/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":7}'
    manager = manager_on(machine)
    assert manager.clean_shutdown_epoch == 7
    assert not machine.files.exists("/data/.kafka_cleanshutdown")
    log = manager.get(T1)
    assert log is not None
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.topic_id) == (1, 2, 2, TOPIC_ID)
    assert log.load_report is not None
    assert log.load_report.segments_recovered == 0
    manager.release()
    machine.kill()
    assert manager_on(machine).clean_shutdown_epoch == -1


def test_checkpoint_files_have_the_text_format_of_kafka(machine: Machine) -> None:
    manager = manager_on(machine)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    log.append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    log.update_high_watermark(1)
    log.flush()
    log.append_as_leader(batch_of(b"b"), 0, now_ms=NOW_MS)
    manager.checkpoint_all()
    assert read_file(machine.files, "/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 1\n"
    assert read_file(machine.files, "/data/replication-offset-checkpoint") == b"0\n1\nt 0 1\n"
    assert not manager.recovery_checkpoints()[0][1].contents  # nothing has changed


POINTS = "/data/recovery-point-offset-checkpoint"


def flushed_with_a_checkpoint_under_way(machine: Machine) -> tuple[LogManager, UnifiedLog, CheckpointJob]:
    manager = manager_on(machine)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    for value in (b"a", b"b", b"c", b"d"):
        log.append_as_leader(batch_of(value), 0, now_ms=NOW_MS)
    log.flush()
    under_way = manager.recovery_checkpoints()[0][1]
    under_way.prepare()
    return manager, log, under_way


def test_a_checkpoint_in_progress_does_not_undo_the_checkpoint_of_a_truncation(machine: Machine) -> None:
    manager, log, under_way = flushed_with_a_checkpoint_under_way(machine)
    assert manager.truncate_to(log, 1, now_ms=NOW_MS)
    under_way.put_in_place()
    under_way.finish()
    assert under_way.contents[0] == (POINTS, b"0\n1\nt 0 3\n")
    assert read_file(machine.files, POINTS) == b"0\n1\nt 0 1\n"


def test_a_truncation_writes_its_own_checkpoint_while_another_is_in_progress(machine: Machine) -> None:
    manager = manager_on(machine)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    for value in (b"a", b"b"):
        log.append_as_leader(batch_of(value), 0, now_ms=NOW_MS)
    assert manager.recovery_checkpoints()[0][1].contents[0] == (POINTS, b"0\n1\nt 0 0\n")
    assert manager.truncate_to(log, 1, now_ms=NOW_MS)
    assert read_file(machine.files, POINTS) == b"0\n1\nt 0 0\n"


def test_many_truncations_write_one_checkpoint_until_a_recovery_point_advances(machine: Machine) -> None:
    manager = manager_on(machine)
    logs = [manager.get_or_create(TopicPartition("t", index), TOPIC_ID, now_ms=NOW_MS) for index in range(20)]
    for log in logs:
        for value in (b"a", b"b", b"c"):
            log.append_as_leader(batch_of(value), 0, now_ms=NOW_MS)
    assert manager.truncate_to(logs[0], 2, now_ms=NOW_MS)
    write_file(machine.files, POINTS, b"not written again")
    for log in logs[1:]:
        assert manager.truncate_to(log, 2, now_ms=NOW_MS)
    assert read_file(machine.files, POINTS) == b"not written again"
    for log in logs[:2]:
        log.flush()
    manager.checkpoint_all()
    assert read_offset_checkpoint(machine.files, POINTS)[TopicPartition("t", 1)] == 1
    assert manager.truncate_to(logs[1], 0, now_ms=NOW_MS)
    points = read_offset_checkpoint(machine.files, POINTS)
    assert (points[TopicPartition("t", 0)], points[TopicPartition("t", 1)]) == (1, 0)


def test_a_checkpoint_in_progress_is_renamed_into_place_unless_a_newer_one_exists(machine: Machine) -> None:
    _, _, under_way = flushed_with_a_checkpoint_under_way(machine)
    under_way.put_in_place()
    under_way.finish()
    assert read_file(machine.files, POINTS) == under_way.contents[0][1]


def test_a_malformed_checkpoint_is_an_error_and_an_empty_one_is_not(machine: Machine) -> None:
    for text in (b"", b"0\n0\n"):
        write_file(machine.files, "/data/c", text)
        assert read_offset_checkpoint(machine.files, "/data/c") == {}
    for text in (b"0\n2\nt 0 1\n", b"1\n0\n", b"x\n", b"0\n1\nt 0\n", b"\xff"):
        write_file(machine.files, "/data/c", text)
        with pytest.raises(CorruptData):
            read_offset_checkpoint(machine.files, "/data/c")


def test_a_damaged_checkpoint_causes_recovery_and_not_a_refusal_to_start(machine: Machine) -> None:
    manager = manager_on(machine)
    manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS).append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    machine.kill()
    write_file(machine.files, "/data/recovery-point-offset-checkpoint", b"garbage")
    events: list[str] = []
    log = manager_on(machine, events=events).get(T0)
    assert log is not None
    assert content(log) == [(0, None, b"a")]
    assert "garbage" in events[0] or "checkpoint" in events[0]


def test_two_processes_cannot_share_a_directory(machine: Machine) -> None:
    first = manager_on(machine)
    with pytest.raises(ConfigurationError, match="in use"):
        manager_on(machine)
    first.release()
    manager_on(machine)


def test_meta_properties_are_written_once_and_a_directory_of_another_cluster_or_node_is_refused(
    machine: Machine,
) -> None:
    manager = manager_on(machine)
    manager.format_missing("my-cluster")
    properties = read_meta_properties(machine.files, "/data")
    assert properties == MetaProperties(cluster_id="my-cluster", node_id=1, directory_id=Uuid((1).to_bytes(16, "big")))
    manager.format_missing("my-cluster")
    assert read_meta_properties(machine.files, "/data") == properties
    manager.release()
    assert manager_on(machine, cluster_id="my-cluster").directories[0].directory_id == Uuid((1).to_bytes(16, "big"))
    for options in ({"cluster_id": "another", "node_id": 1}, {"cluster_id": "my-cluster", "node_id": 2}):
        machine.kill()
        write_meta_properties(machine.files, "/data", MetaProperties(**options))  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="belongs to"):
            manager_on(machine, cluster_id="my-cluster")


def test_java_properties_files_are_parsed(machine: Machine) -> None:
    text = "#\n#Sat Nov 21 09:00:00 UTC 2026\n! more\n  a=b\nc : d\\:e\nempty=\n"
    assert parse_properties(text) == {"a": "b", "c": "d:e", "empty": ""}
    write_file(machine.files, "/data/meta.properties", b"version=1\ncluster.id=x\n")
    with pytest.raises(CorruptData):
        read_meta_properties(machine.files, "/data")


def test_deleted_logs_are_renamed_and_removed_later(machine: Machine) -> None:
    manager = manager_on(machine)
    manager.get_or_create(T1, TOPIC_ID, now_ms=NOW_MS).append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    manager.delete(T1, now_ms=NOW_MS)
    assert manager.get(T1) is None
    name = "other.topic-name-3.00000000000000000000000000000001-delete"
    assert name in machine.files.list_directory("/data")
    assert manager.due_deletions(NOW_MS + 59_999) is None
    again = manager.get_or_create(T1, TOPIC_ID, now_ms=NOW_MS)
    assert again.log_end_offset == 0
    job = manager.due_deletions(NOW_MS + 60_000)
    assert job is not None
    job.run()
    assert name not in machine.files.list_directory("/data")


def test_logs_marked_deleted_before_a_crash_are_removed_after_it(machine: Machine) -> None:
    manager = manager_on(machine)
    manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS).append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    manager.delete(T0, now_ms=NOW_MS)
    machine.power_off()
    manager = manager_on(machine)
    assert manager.get(T0) is None
    job = manager.due_deletions(NOW_MS)
    assert job is not None
    job.run()
    assert not [name for name in machine.files.list_directory("/data") if name.startswith("t-0")]


def test_stray_logs_are_kept_aside_for_an_operator(machine: Machine) -> None:
    manager = manager_on(machine)
    manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS).append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    manager.set_aside_stray(T0, now_ms=NOW_MS)
    stop(manager)
    manager = manager_on(machine)
    assert manager.get(T0) is None
    assert manager.due_deletions(NOW_MS + 10**9) is None
    assert any(name.endswith("-stray") for name in machine.files.list_directory("/data"))


def test_logs_spread_over_directories_and_a_failed_directory_affects_only_its_own_logs(machine: Machine) -> None:
    manager = manager_on(machine, "/data", "/more")
    logs = [manager.get_or_create(TopicPartition("t", index), TOPIC_ID, now_ms=NOW_MS) for index in range(4)]
    assert [len(directory.logs) for directory in manager.directories] == [2, 2]
    for log in logs:
        log.append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    gone = manager.directory_failed("/more", "a test says so")
    assert gone == [TopicPartition("t", 1), TopicPartition("t", 3)]
    assert [log.topic_partition.partition for log in manager.logs()] == [0, 2]
    assert manager.directory_failed("/more", "again") == []
    assert manager.get_or_create(TopicPartition("t", 9), TOPIC_ID, now_ms=NOW_MS).directory == "/data/t-9"
    stop(manager)
    assert machine.files.exists("/data/.kafka_cleanshutdown")
    assert not machine.files.exists("/more/.kafka_cleanshutdown")


def test_a_directory_unreadable_at_startup_is_offline_and_the_last_one_is_fatal(machine: Machine) -> None:
    stop(manager_on(machine, "/data", "/more"))
    machine.disk.faults.append(Fault("list", errno.EIO, "/more"))
    manager = manager_on(machine, "/data", "/more")
    assert [directory.is_online for directory in manager.directories] == [True, False]
    manager.release()
    machine.disk.faults.append(Fault("list", errno.EIO, "/data"))
    with pytest.raises(StorageError, match="no log directory"):
        manager_on(machine)


def test_the_metadata_log_and_foreign_directories_are_not_loaded_as_partitions(machine: Machine) -> None:
    for name in ("__cluster_metadata-0", "lost+found", "notes.txt-1"):
        machine.files.make_directories(f"/data/{name}")
    write_file(machine.files, "/data/file-0", b"")
    manager = manager_on(machine)
    assert [str(log.topic_partition) for log in manager.logs()] == ["notes.txt-1"]


def test_a_changed_configuration_reaches_the_logs_of_its_topic(machine: Machine) -> None:
    configs = {"t": LogConfig()}
    manager = LogManager(
        machine.files, ["/data"], node_id=1, new_uuid=uuids(), config_of=lambda topic: configs.get(topic, LogConfig())
    )
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    configs["t"] = LogConfig.of(
        {"retention.ms": 5, "cleanup.policy": "compact,delete", "kraft.produce.validate.records": True, "unknown": 1}
    )
    manager.reconfigure("t")
    assert (log.config.retention_ms, log.config.compact, log.config.delete, log.config.validate_records) == (
        5,
        True,
        True,
        True,
    )


def test_an_idle_partition_takes_at_most_two_kilobytes_of_memory() -> None:
    import tracemalloc

    machine = Machine()
    manager = manager_on(machine)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for index in range(1000):
        manager.get_or_create(TopicPartition("a-topic-of-usual-name", index), TOPIC_ID, now_ms=NOW_MS)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used / 1000 <= 2048


@pytest.mark.parametrize("crash_after_the_deletion", [False, True])
def test_a_recreated_topic_starts_with_an_empty_log_even_after_a_crash(
    machine: Machine, crash_after_the_deletion: bool
) -> None:
    manager = manager_on(machine)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    log.append_as_leader(batch_of(*(b"a",) * 9), 0, now_ms=NOW_MS)
    log.update_high_watermark(9)
    log.delete_records_before(5)
    log.flush()
    manager.checkpoint_all()
    manager.delete(T0, now_ms=NOW_MS)
    if crash_after_the_deletion:
        manager.release()
        machine.kill()
        manager = manager_on(machine)
    other = Uuid(bytes(range(16)))
    log = manager.get_or_create(T0, other, now_ms=NOW_MS)
    log.append_as_leader(batch_of(b"b", b"c"), 0, now_ms=NOW_MS)
    manager.release()
    machine.kill()
    found = manager_on(machine).get(T0)
    assert found is not None
    assert (found.log_start_offset, found.high_watermark, found.log_end_offset, found.topic_id) == (0, 0, 2, other)


@pytest.mark.parametrize("offset", [20, 3])
def test_a_truncation_below_the_log_start_also_lowers_the_checkpointed_log_start(machine: Machine, offset: int) -> None:
    manager = manager_on(machine, "/data")
    manager.load(NOW_MS)
    log = log_from_35_to_40(manager)
    manager.checkpoint_all()
    manager.truncate_to(log, offset, now_ms=NOW_MS)
    log.append_as_leader(batch_of(b"new"), 1, now_ms=NOW_MS)
    log.flush()
    manager.release()
    machine.kill()
    (loaded,) = manager_on(machine, "/data").load(NOW_MS)
    assert (loaded.log_end_offset, content(loaded)[-1]) == (offset + 1, (offset, None, b"new"))


def test_a_new_log_expires_producers_by_the_same_time_as_loaded_logs() -> None:
    machine = Machine()
    manager = LogManager(
        machine.files,
        ["/data"],
        node_id=1,
        new_uuid=lambda: bytes(16),
        config_of=lambda _: LogConfig(),
        producer_expiration_ms=1000,
    )
    manager.open(None)
    manager.load(NOW_MS)
    assert manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS).producers.expiration_ms == 1000
    manager.expire_producers_after(500)
    assert manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS).producer_expiration_ms == 500
