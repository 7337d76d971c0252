"""The librdkafka that confluent-kafka ships, called without a Python object per message, so that a benchmark
measures brokers and not Python.

Only what the load generator needs: produce batches of one payload, consume batches and drop them.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from itertools import islice
from pathlib import Path

import confluent_kafka

PRODUCER, CONSUMER = 0, 1
OFFSET_BEGINNING = -2
COPY = 0x2
BATCH = 10_000
PACED_BATCH = 500


class RawMessage(ctypes.Structure):
    _fields_ = (
        ("err", ctypes.c_int),
        ("rkt", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )


def load_library() -> ctypes.CDLL:
    """The very library that confluent_kafka uses."""
    wheel = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    return ctypes.CDLL(str(next(wheel.glob("librdkafka-*.so*"))))


LIBRARY = load_library()
POINTER, INT, SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
for name, result, *arguments in (
    ("rd_kafka_conf_new", POINTER),
    ("rd_kafka_conf_set", INT, POINTER, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, SIZE),
    ("rd_kafka_new", POINTER, INT, POINTER, ctypes.c_char_p, SIZE),
    ("rd_kafka_topic_new", POINTER, POINTER, ctypes.c_char_p, POINTER),
    ("rd_kafka_produce_batch", INT, POINTER, ctypes.c_int32, INT, POINTER, INT),
    ("rd_kafka_poll", INT, POINTER, INT),
    ("rd_kafka_outq_len", INT, POINTER),
    ("rd_kafka_flush", INT, POINTER, INT),
    ("rd_kafka_consume_start", INT, POINTER, ctypes.c_int32, ctypes.c_int64),
    ("rd_kafka_consume_batch", ctypes.c_ssize_t, POINTER, ctypes.c_int32, INT, POINTER, SIZE),
    ("rd_kafka_message_destroy", None, POINTER),
):
    function = getattr(LIBRARY, str(name))
    function.restype, function.argtypes = result, arguments


def client(kind: int, config: dict[str, str], topic: str) -> tuple[int, int]:
    """A client and its topic handle. Raises ValueError for a setting that librdkafka refuses."""
    settings, problem = LIBRARY.rd_kafka_conf_new(), ctypes.create_string_buffer(512)
    for key, value in config.items():
        if LIBRARY.rd_kafka_conf_set(settings, key.encode(), value.encode(), problem, 512) != 0:
            raise ValueError(problem.value.decode())
    handle = LIBRARY.rd_kafka_new(kind, settings, problem, 512)
    if not handle:
        raise ValueError(problem.value.decode())
    return handle, LIBRARY.rd_kafka_topic_new(handle, topic.encode(), None)


def produce(
    bootstrap: str,
    topic: str,
    count: int,
    size: int,
    bytes_per_s: int = 0,
    partitions: int = 1,
    codec: str = "none",
    keys: int = 0,
) -> float:
    """Seconds from the first record until the last acknowledgement, at full speed or at `bytes_per_s`, to
    `partitions` in turn.

    With `keys`, each record has one of so many keys and values are texts, a fifth of whose size remains in lz4.
    Otherwise all records are the same bytes, without a key. Connections are warm before the clock starts.
    """
    config = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": "5",
        "batch.size": "1000000",
        "queue.buffering.max.messages": "1000000",
        "queue.buffering.max.kbytes": "131072",
        "compression.type": codec,
    }
    handle, rkt = client(PRODUCER, config, topic)
    messages = (RawMessage * BATCH)()
    kept = fill_keyed(messages, size, keys) if keys else fill_alike(messages, size)
    in_flight_max = max(BATCH, min(400_000, 64_000_000 // size))

    def send(amount: int, partition: int) -> None:
        queued = LIBRARY.rd_kafka_produce_batch(rkt, partition, COPY, messages, amount)
        if queued != amount:
            raise RuntimeError(f"only {queued} of {amount} records were queued: error {messages[queued].err}")

    for partition in range(partitions):
        send(100, partition)
    if LIBRARY.rd_kafka_flush(handle, 60_000) != 0:
        raise TimeoutError("the first records were not acknowledged")
    started, left, sent = time.perf_counter(), count, 0
    while left:
        amount = min(PACED_BATCH if bytes_per_s else BATCH // partitions, left)
        while LIBRARY.rd_kafka_outq_len(handle) > in_flight_max:
            LIBRARY.rd_kafka_poll(handle, 1)
        send(amount, sent % partitions)
        sent += 1
        left -= amount
        LIBRARY.rd_kafka_poll(handle, 0)
        if bytes_per_s:
            time.sleep(max(0.0, started + (count - left) * size / bytes_per_s - time.perf_counter()))
    if LIBRARY.rd_kafka_flush(handle, 120_000) != 0:
        raise TimeoutError("records were not acknowledged")
    del kept
    return time.perf_counter() - started


def fill_alike(messages: ctypes.Array[RawMessage], size: int) -> object:
    """Let every message be the same bytes. What is returned owns them."""
    payload = ctypes.create_string_buffer(bytes(index * 131 % 251 for index in range(size)), size)
    for message in messages:
        message.payload, message.len = ctypes.addressof(payload), size
    return payload


def fill_keyed(messages: ctypes.Array[RawMessage], size: int, keys: int) -> object:
    """Give each message a key and a text of its own, of `size` bytes together. What is returned owns them."""
    owned = []
    for index, message in enumerate(messages):
        key = b"%010d" % (index * 7919 % keys)
        fields = (b'"field%d": %d' % (field, index * field * 7919 % 1_000_003) for field in range(size))
        text = b"{" + b", ".join(islice(fields, size // 14 + 1))
        value = text[: size - len(key)]
        message.payload, message.len = ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p).value, len(value)
        message.key, message.key_len = ctypes.cast(ctypes.c_char_p(key), ctypes.c_void_p).value, len(key)
        owned += [key, value]
    return owned


def consume(bootstrap: str, topic: str, count: int) -> float:
    """Seconds from the first record to the last of `count`."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "bench",
        "fetch.message.max.bytes": "4194304",
        "queued.max.messages.kbytes": "65536",
        "queued.min.messages": "1000000",
        "fetch.queue.backoff.ms": "1",
        "auto.offset.reset": "error",
    }
    _, rkt = client(CONSUMER, config, topic)
    LIBRARY.rd_kafka_consume_start(rkt, 0, OFFSET_BEGINNING)
    messages, destroy = (ctypes.c_void_p * BATCH)(), LIBRARY.rd_kafka_message_destroy
    first = LIBRARY.rd_kafka_consume_batch(rkt, 0, 30_000, messages, 1)
    if first != 1:
        raise TimeoutError("no first record")
    destroy(messages[0])
    started, seen = time.perf_counter(), 1
    deadline = time.monotonic() + 120
    while seen < count:
        amount = LIBRARY.rd_kafka_consume_batch(rkt, 0, 20, messages, BATCH)
        deque(map(destroy, messages[:amount]), maxlen=0)
        seen += amount
        if time.monotonic() > deadline:
            raise TimeoutError(f"{seen} of {count} records after two minutes")
    return time.perf_counter() - started
