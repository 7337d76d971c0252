"""Produce: good batches with every codec, batches that lie, acks, idempotent sequences."""

import struct

from tests.vectors.case import Ask, case, create, produce_body, produced
from tests.vectors.plain import Batch

TWO = Batch(b"one", b"two")
KEYED = Batch((b"k", b"v", (("h", b"x"), ("h", None))), (b"k", None, ()))


def flipped(data: bytearray) -> bytearray:
    """The last byte differs: the CRC does not match."""
    data[-1] ^= 1
    return data


def cut(data: bytearray) -> bytearray:
    return data[:-3]


def magic_1(data: bytearray) -> bytearray:
    data[16] = 1
    return data


def zero_count(data: bytearray) -> bytearray:
    data[57:61] = struct.pack(">i", 0)
    return resealed(data)


def wrong_last_delta(data: bytearray) -> bytearray:
    data[23:27] = struct.pack(">i", 7)
    return resealed(data)


def unknown_codec(data: bytearray) -> bytearray:
    data[21:23] = struct.pack(">h", 7)
    return resealed(data)


def resealed(data: bytearray) -> bytearray:
    """With a CRC that matches what was changed."""
    from crc32c import crc32c

    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    return data


def ask(records: object, **more: object) -> Ask:
    return Ask(produce_body(records, **more))  # type: ignore[arg-type]


FETCH = Ask(
    {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "topics": [
            {"topic": "$topic", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}
        ],
    },
    api="Fetch",
    version=11,
)
ID = Ask(
    {"transactional_id": None, "transaction_timeout_ms": 0},
    api="InitProducerId",
    version=4,
    save={"producer": "producer_id", "epoch": "producer_epoch"},
    hidden=True,
)
# The first producer id of a fresh cluster is not known to the script, so batches carry ids of their own: Kafka takes
# any id it has not seen.
P = {"producer_id": 4_000_001, "producer_epoch": 3}


CASES = (
    case("good", "Produce", create(), ask(TWO), ask(TWO), FETCH),
    case("acks-1", "Produce", create(), ask(TWO, acks=1)),
    case("acks-0", "Produce", create(), Ask(produce_body(TWO, acks=0), silent=True), FETCH),
    case("acks-2", "Produce", create(), ask(TWO, acks=2)),
    case("keys-headers-nulls", "Produce", create(), ask(KEYED), FETCH),
    *(
        case(f"codec-{name}", "Produce", create(), ask(Batch(b"one" * 50, b"two" * 50, codec=codec)), FETCH)
        for codec, name in enumerate(("none", "gzip", "snappy", "lz4", "zstd"))
    ),
    case("nobody", "Produce", Ask({"acks": -1, "timeout_ms": 1000, "topic_data": []})),
    case("unknown-topic", "Produce", ask(TWO)),
    case("unknown-partition", "Produce", create(), ask(TWO, partition=4)),
    case("negative-partition", "Produce", create(), ask(TWO, partition=-1)),
    case("null-records", "Produce", create(), Ask(produce_body(None), silent=True)),  # Apache Kafka forgets to answer.
    case("empty-records", "Produce", create(), ask(b"")),
    case("two-batches", "Produce", create(), ask([TWO, TWO])),
    case("bad-crc", "Produce", create(), ask(Batch(b"one", tweak=flipped))),
    case("cut-short", "Produce", create(), ask(Batch(b"one", tweak=cut))),
    case("magic-1", "Produce", create(), ask(Batch(b"one", tweak=magic_1))),
    case("zero-count", "Produce", create(), ask(Batch(b"one", tweak=zero_count))),
    case("wrong-last-offset", "Produce", create(), ask(Batch(b"one", tweak=wrong_last_delta))),
    case("unknown-codec", "Produce", create(), ask(Batch(b"one", tweak=unknown_codec))),
    case("base-offset-not-zero", "Produce", create(), ask(Batch(b"one", base_offset=5, last_offset=5))),
    case(
        "control-batch",
        "Produce",
        create(),
        ask(Batch((b"\0\0\0\1", b"\0\0\0\0\0\0", ()), is_control=True, producer_id=4_000_100, producer_epoch=0)),
    ),
    case("too-large", "Produce", create(max_message_bytes="100"), ask(Batch(b"x" * 200))),
    case("compacted-needs-key", "Produce", create(cleanup_policy="compact"), ask(TWO)),
    case("compacted-with-key", "Produce", create(cleanup_policy="compact"), ask(Batch((b"k", b"v", ())))),
    case("log-append-time", "Produce", create(message_timestamp_type="LogAppendTime"), ask(TWO)),
    case("far-future", "Produce", create(), ask(Batch(b"one", timestamp=9_000_000_000_000))),
    case("too-old", "Produce", create(message_timestamp_before_max_ms="1000"), ask(TWO)),
    case("no-timestamp", "Produce", create(), ask(Batch(b"one", timestamp=-1))),
    case("recompressed", "Produce", create(compression_type="gzip"), ask(TWO), FETCH),
    case("uncompressed", "Produce", create(compression_type="uncompressed"), ask(Batch(b"one", codec=1)), FETCH),
    case(
        "two-partitions",
        "Produce",
        create(partitions=2),
        Ask(
            {
                "acks": -1,
                "timeout_ms": 1000,
                "topic_data": [
                    {
                        "name": "$topic",
                        "topic_id": "$topic.id",
                        "partition_data": [{"index": index, "records": TWO} for index in (0, 1, 2)],
                    }
                ],
            }
        ),
    ),
    case(
        "idempotent",
        "Produce",
        create(),
        ask(Batch(b"a", **P, base_sequence=0)),
        ask(Batch(b"b", **P, base_sequence=1)),
        FETCH,
    ),
    case(
        "idempotent-duplicate",
        "Produce",
        create(),
        ask(Batch(b"a", **P, base_sequence=0)),
        ask(Batch(b"a", **P, base_sequence=0)),
        FETCH,
    ),
    case(
        "idempotent-gap",
        "Produce",
        create(),
        ask(Batch(b"a", **P, base_sequence=0)),
        ask(Batch(b"b", **P, base_sequence=2)),
    ),
    case("idempotent-not-from-zero", "Produce", create(), ask(Batch(b"a", **P, base_sequence=9)), FETCH),
    case(
        "idempotent-old-epoch",
        "Produce",
        create(),
        ask(Batch(b"a", **P, base_sequence=0)),
        ask(Batch(b"b", producer_id=P["producer_id"], producer_epoch=2, base_sequence=1)),
    ),
    case(
        "idempotent-new-epoch",
        "Produce",
        create(),
        ask(Batch(b"a", **P, base_sequence=0)),
        ask(Batch(b"b", producer_id=P["producer_id"], producer_epoch=4, base_sequence=0)),
    ),
    case(
        "idempotent-new-epoch-gap",
        "Produce",
        create(),
        ask(Batch(b"a", **P, base_sequence=0)),
        ask(Batch(b"b", producer_id=P["producer_id"], producer_epoch=4, base_sequence=3)),
    ),
    case(
        "idempotent-six-back",
        "Produce",
        create(),
        *(produced(Batch(b"a", **P, base_sequence=number)) for number in range(6)),
        ask(Batch(b"a", **P, base_sequence=0)),
    ),
    case(
        "idempotent-five-back",
        "Produce",
        create(),
        *(produced(Batch(b"a", **P, base_sequence=number)) for number in range(5)),
        ask(Batch(b"a", **P, base_sequence=0)),
    ),
    case(
        "idempotent-wrap",
        "Produce",
        create(),
        ask(Batch(b"a", b"b", **P, base_sequence=2**31 - 2)),
        ask(Batch(b"c", **P, base_sequence=0)),
        FETCH,
    ),
    case(
        "producer-id-without-sequence", "Produce", create(), ask(Batch(b"a", producer_id=4_000_002, producer_epoch=0))
    ),
    case(
        "transactional-batch-without-id",
        "Produce",
        create(),
        ask(Batch(b"a", producer_id=4_000_003, producer_epoch=0, base_sequence=0, is_transactional=True)),
    ),
)
