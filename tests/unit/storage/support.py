"""A small world for storage tests: an in-memory disk that crashes on demand, and batches as producers send them."""

from __future__ import annotations

import random
from collections.abc import Callable

from kraft.common.ids import TopicPartition, Uuid
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.replication.time_lookups import find_by_timestamp
from kraft.storage.file_cache import FileCache
from kraft.storage.log_config import LogConfig
from kraft.storage.log_manager import LogManager
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated.disk import Disk
from kraft.world.simulated.files import SimulatedFileSystem
from kraft.world.simulated.node import Node
from kraft.world.simulated.time import VirtualTime
from kraft.world.simulated.trace import Trace
from kraft.world.steps import Steps, at_once

NOW_MS = 1_700_000_000_000
T0 = TopicPartition("t", 0)
TOPIC_ID = Uuid(b"0123456789abcdef")
DIRECTORY = "/data/t-0"


class Machine:
    """One disk and the process that uses it. `kill` ends the process, `power_off` loses what was not synced; both
    start another process over the disk."""

    def __init__(self, seed: int = 0, make_trace: Callable[[], Trace] = Trace) -> None:
        self.disk = Disk(random.Random(seed))
        self._make_trace = make_trace
        self._lives = 0
        self.start()
        self.files.make_directories("/data")
        self.files.sync_directory("/")

    def start(self) -> None:
        self._lives += 1
        self.wall_ms = NOW_MS
        self.node = Node("n", self._lives, VirtualTime(), self._make_trace())
        self.files = SimulatedFileSystem(self.node, self.disk, lambda: self.wall_ms)

    def kill(self) -> None:
        self.node.die(power_lost=False)
        self.disk.locks.clear()
        self.start()

    def power_off(self) -> None:
        self.node.die(power_lost=True)
        self.disk.crash()
        self.start()

    def manager(self, config: Callable[[], LogConfig], chance: random.Random) -> LogManager:
        """Of /data, not opened yet: that is where the process may die. `chance` draws the ids of new directories."""
        ids = random.Random(chance.random())
        return LogManager(
            self.files, ["/data"], node_id=1, new_uuid=lambda: ids.randbytes(16), config_of=lambda _: config()
        )

    def log(
        self,
        config: LogConfig | None = None,
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        now_ms: int = NOW_MS,
    ) -> UnifiedLog:
        return at_once(
            self.opening(
                config,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                now_ms=now_ms,
            )
        )

    def opening(
        self,
        config: LogConfig | None = None,
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        now_ms: int = NOW_MS,
    ) -> Steps[UnifiedLog]:
        """What opens the log, not begun."""
        return UnifiedLog.open(
            self.files,
            DIRECTORY,
            T0,
            config or LogConfig(),
            now_ms=now_ms,
            cache=FileCache(self.files),
            topic_id=TOPIC_ID,
            clean_shutdown=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )


def batch_of(
    *values: bytes | None, keys: tuple[bytes | None, ...] = (), timestamp: int = NOW_MS, **options: int | bool
) -> bytes:
    """A produced batch: base offset 0, timestamps one ms apart."""
    padded = keys + (None,) * (len(values) - len(keys))
    records = [
        Record(index, timestamp + index, key, value)
        for index, (key, value) in enumerate(zip(padded, values, strict=True))
    ]
    return build_batch(records, **options)  # type: ignore[arg-type]  # options of build_batch, by name


def content(
    log: UnifiedLog, start: int | None = None, end: int | None = None
) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of every data record that can be read from `start`, through `read` alone."""
    found = []
    offset = log.log_start_offset if start is None else start
    end = log.log_end_offset if end is None else end
    while offset < end:
        data = log.read(offset, 1 << 20, max_offset=end, min_one_message=True).read()
        if not data:
            break
        for batch in batches(data, partial_tail=True):
            batch.verify_crc()
            if not batch.is_control:
                found += [
                    (record.offset, record.key, record.value) for record in batch.records() if record.offset >= offset
                ]
            last = batch
        offset = last.next_offset
    return found


def found_by_time(log: UnifiedLog, timestamp: int) -> tuple[int, int, int] | None:
    return at_once(find_by_timestamp(log, timestamp))


def batches_in(log: UnifiedLog) -> list[RecordBatch]:
    """Every batch of the log, from its files."""
    return [batch for segment in log.segments for batch in batches(segment.open_log().file.pread(segment.size, 0))]
