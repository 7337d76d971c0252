"""Random batches in the dialects of many clients, sent to Apache Kafka and to a node of ours alike: each has the same
answer, the same bytes are stored, and the same offsets are found by time and kept by retention.

Left out of the comparison is what a leader adds by its own clock or compressor: append times, the leader epoch, and the
bytes of a batch that it compresses anew; and attributes without a meaning, which Kafka clears at times. Where both
refuse a batch with a fault, they may name different ones of its faults."""

from __future__ import annotations

import struct
import time
from random import Random
from typing import Any, Final

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.response_header import ResponseHeader
from kraft.protocol.records.record_batch import HEADER_SIZE, batches
from tests.properties.strange_batches import MINUTE_MS, Writer
from tests.properties.transactions_against_kafka import Side, codes_of
from tests.vectors.wire import CLOSED, SILENT

Plain = Any
RETENTION_MS: Final = 60 * MINUTE_MS
KEPT_SECONDS: Final = 30.0
APPEND_TIME: Final = "LogAppendTime"
LATEST, EARLIEST, LARGEST = -1, -2, -3
SETTINGS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"segment.ms": str(20 * MINUTE_MS)},
    {"message.timestamp.type": APPEND_TIME},
    {"compression.type": "lz4"},
    {"compression.type": "uncompressed", "segment.ms": str(20 * MINUTE_MS)},
    {"compression.type": "gzip", "message.timestamp.type": APPEND_TIME},
    {"message.timestamp.before.max.ms": str(45 * MINUTE_MS)},
    {"message.timestamp.after.max.ms": str(1 << 62), "segment.ms": str(20 * MINUTE_MS)},
    {"max.message.bytes": "300"},
    {"cleanup.policy": "compact", "min.compaction.lag.ms": str(1 << 40)},
)
"""Settings of topics, in turn."""


class BatchLife:
    """One topic's life. `run` and `await_retention` raise AssertionError at the first difference, with the batch."""

    def __init__(self, seed: int, sides: tuple[Side, Side]) -> None:
        self.source = Random(seed)
        self.sides = sides
        self.seed = seed
        self.topics = 0
        self.topic = ""
        self.settings = SETTINGS[seed % len(SETTINGS)]
        self.writer = Writer(self.source, int(time.time() * 1000))
        self.producer = 4_200_000 + seed
        self.sequence = 0
        self.sent = b""
        self.faults: tuple[str, ...] = ()
        self.taken = 0
        self.compared = 0

    @property
    def appends_by_time(self) -> bool:
        return self.settings.get("message.timestamp.type") == APPEND_TIME

    @property
    def is_anew(self) -> bool:
        """Whether leaders compress batches anew."""
        return "compression.type" in self.settings

    def make_topic(self) -> None:
        """Begin with a topic, the first one or another."""
        self.topics += 1
        self.topic = f"batches-{self.seed}-{self.topics}"
        self.sequence = 0
        configs = [{"name": name, "value": value} for name, value in {"retention.ms": "-1", **self.settings}.items()]
        topic = {"name": self.topic, "num_partitions": 1, "replication_factor": 1, "configs": configs}
        for side in self.sides:
            answer = side.ask("CreateTopics", 5, {"topics": [topic], "timeout_ms": 10_000})
            assert not any(codes_of(answer)), answer
            while self._found(side, EARLIEST)[0] != 0:
                time.sleep(0.01)

    def run(self, count: int) -> None:
        """Send so many requests, and look for what they left after some of them."""
        for number in range(count):
            self._produce()
            if number % 10 == 9:
                self._look()
        self._look()

    def begin_retention(self) -> None:
        """Have both delete what is older than an hour."""
        if self.settings.get("cleanup.policy") == "compact":
            return
        for side in self.sides:
            config = {"name": "retention.ms", "config_operation": 0, "value": str(RETENTION_MS)}
            resource = {"resource_type": 2, "resource_name": self.topic, "configs": [config]}
            assert not any(codes_of(side.ask("IncrementalAlterConfigs", 0, {"resources": [resource]})))

    def await_retention(self) -> None:
        """Both keep the same."""
        deadline = time.monotonic() + KEPT_SECONDS
        while True:
            starts = {side.name: self._found(side, EARLIEST)[1] for side in self.sides}
            if starts["ours"] == starts["kafka"] or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        self._compare("start after retention", starts)
        self._look()

    # Steps

    def _produce(self) -> None:
        choose, chance = self.source.choice, self.source.random
        producer = None
        if chance() < 0.2:
            producer = self.producer, 0, max(0, self.sequence + choose((0,) * 10 + (1, -1)))
        records, self.faults = self.writer.batch(producer)
        if chance() < 0.02:
            records += self.writer.batch().data
            self.faults += ("a second batch",)
        self.sent = records
        body = {
            "acks": choose((-1, 1)),
            "timeout_ms": 5000,
            "topic_data": [{"name": self.topic, "partition_data": [{"index": 0, "records": records}]}],
        }
        version = self.source.randrange(3, 13)
        ours, kafka = (self._answer(side, version, body) for side in self.sides)
        code, kafkas = ours["error_code"], kafka["error_code"]
        if code and kafkas and self.faults:
            return
        if code != kafkas and self._may_differ(code, kafkas):
            self.make_topic()
            return
        self._compare(f"produce v{version}", {"ours": ours, "kafka": kafka})
        if code == 0 and "offset deltas" in self.faults:
            self.make_topic()  # Ours has numbered the records anew, Kafka has kept the gaps.
        elif code == 0:
            self.taken += 1
            if producer is not None:
                (count,) = struct.unpack_from(">i", records, 57)
                self.sequence = max(self.sequence, producer[2] + count)

    def _may_differ(self, code: Plain, kafkas: Plain) -> bool:
        """Whether one may take what the other refuses.

        Kafka fails with UNKNOWN_SERVER_ERROR on offsets that are not 0, 1, 2; and, where it compresses anew, on times
        before 1970 and attributes out of place. It takes damaged frames and records of a wrong length, which few
        readers can read, and cuts off a second batch that is damaged.
        """
        if kafkas == ErrorCode.UNKNOWN_SERVER_ERROR:
            return self.is_anew or (code == 0 and "offset deltas" in self.faults)
        is_damaged = any(each.startswith(("record", "frame", "a second batch")) for each in self.faults)
        return kafkas == 0 and code != 0 and is_damaged

    def _answer(self, side: Side, version: int, body: dict[str, Plain]) -> Plain:
        side.connection.send("Produce", version, body)
        answer = side.connection.receive("Produce", version)
        if isinstance(answer, str):
            assert answer in (CLOSED, SILENT)
            side.reconnect()
            return {"error_code": answer}
        (partition,) = answer["responses"][0]["partition_responses"]
        return {
            "error_code": partition["error_code"],
            "base_offset": partition["base_offset"],
            "has_append_time": partition["log_append_time_ms"] >= 0,
            "start": partition.get("log_start_offset"),
            "errors": [each["batch_index"] for each in partition.get("record_errors", ())],
        }

    def _look(self) -> None:
        """Compare what is stored, and what is found by time."""
        self.sent = b""
        self._compare("stored", {side.name: self._stored(side) for side in self.sides})
        now = self.writer.now_ms
        times = [LATEST, EARLIEST, LARGEST]
        if not self.appends_by_time:
            times += [now + self.source.choice((0, 1, -41, 6, -90 * MINUTE_MS, -MINUTE_MS - 1, 50 * MINUTE_MS)), 0, 2]
        for at in times:
            self._compare(f"found by time {at}", {side.name: self._found(side, at) for side in self.sides})

    def _found(self, side: Side, at: int) -> tuple[int, int, int]:
        partitions = [{"partition_index": 0, "timestamp": at}]
        body = {"replica_id": -1, "topics": [{"name": self.topic, "partitions": partitions}], "timeout_ms": 5000}
        (found,) = side.ask("ListOffsets", 7, body)["topics"][0]["partitions"]
        # Of records that all have no time, Kafka names one. Append times follow from each side's clock.
        is_open = at == LARGEST and (found["timestamp"] == -1 or self.appends_by_time)
        offset = -1 if is_open else found["offset"]
        return found["error_code"], offset, -1 if self.appends_by_time else found["timestamp"]

    def _stored(self, side: Side) -> list[Plain]:
        """The batches of the partition from its start on."""
        stored: list[Plain] = []
        offset = self._found(side, EARLIEST)[1]
        while True:
            data = self._fetched(side, offset)
            found = list(batches(data, partial_tail=True))
            if not found:
                return stored
            stored += [self._plain(bytes(each.view)) for each in found]
            offset = found[-1].last_offset + 1

    def _plain(self, data: bytes) -> Plain:
        """A batch without what its leader has added; and if it was compressed anew, without its frame."""
        (batch,) = batches(data)
        header = bytearray(data[:HEADER_SIZE])
        header[8:21] = bytes(13)
        if self.appends_by_time:
            header[35:43] = bytes(8)
        header[21] = 0
        header[22] &= 0x7F
        if not self.is_anew:
            return bytes(header).hex(), data[HEADER_SIZE:].hex()
        header[27:35] = bytes(8)
        return bytes(header).hex(), [
            (each.key, each.value, each.headers, None if self.appends_by_time else each.timestamp)
            for each in batch.records()
        ]

    def _fetched(self, side: Side, offset: int) -> bytes:
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        body = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "session_epoch": -1,
            "topics": [{"topic": self.topic, "partitions": [partition]}],
        }
        side.connection.send("Fetch", 11, body)
        frame = side.connection.exactly(struct.unpack(">i", side.connection.exactly(4))[0])
        _, position = ResponseHeader.decode_from(frame, 0, 0)
        message, _ = FetchResponse.decode_from(frame, position, 11)
        (answer,) = message.responses[0].partitions
        assert answer.error_code == 0, answer
        return bytes(answer.records or b"")

    def _compare(self, label: str, told: dict[str, Plain]) -> None:
        ours, kafka = told["ours"], told["kafka"]
        if ours != kafka:
            if isinstance(ours, list):
                pairs = [pair for pair in zip(ours, kafka, strict=False) if pair[0] != pair[1]]
                ours, kafka = pairs[0] if pairs else (ours[len(kafka) :], kafka[len(ours) :])
            raise AssertionError(
                f"{self.topic} {self.settings}, {label}:\n  ours {ours}\n kafka {kafka}\n after {self.sent.hex()}"
            )
        self.compared += 1
