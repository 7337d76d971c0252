"""Checkpoints of one log directory, when several jobs write them."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from kraft.common.errors import ConfigurationError, OutOfResources
from kraft.common.ids import TopicPartition
from kraft.storage.checkpoints import read_file
from kraft.storage.log_config import LogConfig
from kraft.storage.log_manager import LogManager
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import LockHeld, LockHolder
from kraft.world.simulated.disk import Fault
from kraft.world.simulated.files import SimulatedFileSystem
from tests.unit.storage.support import NOW_MS, T0, TOPIC_ID, Machine, batch_of

POINTS = "/data/recovery-point-offset-checkpoint"


@pytest.fixture
def machine() -> Machine:
    return Machine()


def manager_on(machine: Machine) -> LogManager:
    manager = LogManager(
        machine.files, ["/data"], node_id=1, new_uuid=lambda: bytes(16), config_of=lambda _: LogConfig()
    )
    manager.open(None)
    manager.load(NOW_MS)
    return manager


def flushed(machine: Machine) -> tuple[LogManager, UnifiedLog]:
    """A log of four records, all durable, that no checkpoint knows."""
    manager = manager_on(machine)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    for value in (b"a", b"b", b"c", b"d"):
        log.append_as_leader(batch_of(value), 0, now_ms=NOW_MS)
    log.flush()
    return manager, log


@pytest.mark.parametrize(
    ("holders", "told"),
    [
        ((), "in use by another process, which holds .lock: stop it, or"),
        (
            (LockHolder(7, "kraft-node", False),),
            r"in use by process 7 \(kraft-node\), which holds .lock: stop it \(kill 7\)",
        ),
        (
            (LockHolder(7, "kraft-node", False), LockHolder(8, "python -c x", True)),
            r"process 7 \(kraft-node\), 8 \(frozen by SIGSTOP, python -c x\), which .* stop it \(kill -9 8\)",
        ),
    ],
)
def test_the_lock_error_of_a_directory_in_use_names_the_owner_and_the_remedy(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, holders: Sequence[LockHolder], told: str
) -> None:
    @contextmanager
    def held(files: SimulatedFileSystem, path: str) -> Iterator[None]:
        raise LockHeld(path, holders)
        yield

    monkeypatch.setattr(SimulatedFileSystem, "lock", held)
    with pytest.raises(ConfigurationError, match=told):
        manager_on(machine)


def test_concurrent_checkpoint_writes_of_one_file_keep_the_newest(machine: Machine) -> None:
    manager, log = flushed(machine)
    slow = manager.recovery_checkpoints()[0][1]  # It is made, and has to wait.
    assert manager.truncate_to(log, 1, now_ms=NOW_MS)
    manager.directories[0].checkpoint_missed()
    newest = manager.recovery_checkpoints()[0][1]
    newest.prepare()
    slow.prepare()
    newest.put_in_place()
    newest.finish()
    slow.put_in_place()
    slow.finish()
    assert slow.contents[0] == (POINTS, b"0\n1\nt 0 3\n")
    assert read_file(machine.files, POINTS) == newest.contents[0][1] == b"0\n1\nt 0 0\n"
    assert not [name for name in machine.files.list_directory("/data") if "prepared" in name]


def test_a_prepared_checkpoint_file_that_was_not_put_in_place_is_removed(machine: Machine) -> None:
    manager, _ = flushed(machine)
    manager.recovery_checkpoints()[0][1].prepare()
    topic = manager.get_or_create(TopicPartition("a-checkpoint.prepared.1", 0), TOPIC_ID, now_ms=NOW_MS)
    topic.append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)

    def prepared() -> list[str]:
        return [
            name
            for name in machine.files.list_directory("/data")
            if "-checkpoint.prepared" in name and not name.startswith("a-")
        ]

    assert prepared()
    manager.release()
    machine.kill()
    manager = manager_on(machine)
    assert not prepared()
    assert set(manager.directories[0].logs) == {T0, topic.topic_partition}
    machine.disk.faults = [Fault("sync", errno.ENOSPC, "log-start-offset-checkpoint")]
    manager.get_or_create(TopicPartition("other", 3), TOPIC_ID, now_ms=NOW_MS)
    manager.directories[0].checkpoint_missed()
    with pytest.raises(OutOfResources):
        manager.recovery_checkpoints()[0][1].prepare()
    assert not prepared()
