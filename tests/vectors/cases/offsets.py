"""ListOffsets and OffsetForLeaderEpoch."""

from typing import Any

from tests.vectors.case import Ask, case, create, produced
from tests.vectors.plain import Batch

BASE = 1_700_000_000_000
TEN = [produced(Batch(*(b"%d" % number for number in range(5)), timestamp=BASE + start * 1000)) for start in (0, 5)]
DELETE_SIX = Ask(
    {"topics": [{"name": "$topic", "partitions": [{"partition_index": 0, "offset": 6}]}], "timeout_ms": 5000},
    api="DeleteRecords",
    version=2,
    hidden=True,
)


def at(*times: int, **more: Any) -> tuple[Ask, ...]:
    return tuple(
        Ask(
            {
                "replica_id": -1,
                "topics": [{"name": "$topic", "partitions": [{"partition_index": 0, "timestamp": time, **more}]}],
                "timeout_ms": 5000,
            }
        )
        for time in times
    )


def epochs(*pairs: tuple[int, int], index: int = 0) -> Ask:
    """(current leader epoch, asked epoch)."""
    return Ask(
        {
            "replica_id": -1,
            "topics": [
                {
                    "topic": "$topic",
                    "partitions": [
                        {"partition": index, "current_leader_epoch": now, "leader_epoch": then} for now, then in pairs
                    ],
                }
            ],
        }
    )


CASES = (
    case("latest-earliest", "ListOffsets", create(), TEN, at(-1, -2)),
    case("of-empty-log", "ListOffsets", create(), at(-1, -2, 0, BASE)),
    case("max-timestamp", "ListOffsets", create(), TEN, at(-3)),
    case("max-timestamp-of-nothing", "ListOffsets", create(), at(-3)),
    case("earliest-local", "ListOffsets", create(), TEN, at(-4)),
    case("latest-tiered", "ListOffsets", create(), TEN, at(-5)),
    case("earliest-pending-upload", "ListOffsets", create(), TEN, at(-6)),
    case("unknown-sentinel", "ListOffsets", create(), TEN, at(-7, -100)),
    case(
        "by-time",
        "ListOffsets",
        create(),
        TEN,
        at(0, BASE - 1, BASE, BASE + 1, BASE + 4, BASE + 5, BASE + 5000, BASE + 5004),
    ),
    case("by-time-beyond", "ListOffsets", create(), TEN, at(BASE + 5005, 2**62)),
    case("after-delete-records", "ListOffsets", create(), TEN, DELETE_SIX, at(-1, -2, 0, BASE, BASE + 5000)),
    case(
        "latest-read-committed",
        "ListOffsets",
        create(),
        TEN,
        Ask(
            {
                "replica_id": -1,
                "isolation_level": 1,
                "topics": [{"name": "$topic", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
            }
        ),
    ),
    case("offsets-unknown-topic", "ListOffsets", at(-1)),
    case(
        "offsets-unknown-partition",
        "ListOffsets",
        create(),
        Ask(
            {"replica_id": -1, "topics": [{"name": "$topic", "partitions": [{"partition_index": 5, "timestamp": -1}]}]}
        ),
    ),
    case(
        "duplicate-partition",
        "ListOffsets",
        create(),
        Ask(
            {
                "replica_id": -1,
                "topics": [{"name": "$topic", "partitions": [{"partition_index": 0, "timestamp": -1}] * 2}],
            }
        ),
    ),
    case(
        "latest-bad-isolation",
        "ListOffsets",
        create(),
        Ask(
            {
                "replica_id": -1,
                "isolation_level": 7,
                "topics": [{"name": "$topic", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
            }
        ),
    ),
    case(
        "topic-twice",
        "ListOffsets",
        create(partitions=2),
        Ask(
            {
                "replica_id": -1,
                "topics": [
                    {"name": "$topic", "partitions": [{"partition_index": index, "timestamp": -1}]} for index in (0, 1)
                ],
            }
        ),
    ),
    case(
        "leader-epochs",
        "ListOffsets",
        create(),
        at(-1, current_leader_epoch=0),
        at(-1, current_leader_epoch=3),
        versions=(4, 11),
    ),
    case(
        "debug-replica",
        "ListOffsets",
        create(),
        TEN,
        Ask(
            {"replica_id": -2, "topics": [{"name": "$topic", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
        ),
    ),
    case("offsets-nothing", "ListOffsets", Ask({"replica_id": -1, "topics": []})),
    case("epoch-now", "OffsetForLeaderEpoch", create(), TEN, epochs((-1, 0))),
    case("epoch-checked", "OffsetForLeaderEpoch", create(), TEN, epochs((0, 0))),
    case("epoch-of-future", "OffsetForLeaderEpoch", create(), TEN, epochs((-1, 5))),
    case("epoch-negative", "OffsetForLeaderEpoch", create(), TEN, epochs((-1, -1))),
    case("epoch-client-ahead", "OffsetForLeaderEpoch", create(), TEN, epochs((4, 0))),
    case("epoch-of-empty-log", "OffsetForLeaderEpoch", create(), epochs((-1, 0))),
    case("epoch-unknown-topic", "OffsetForLeaderEpoch", epochs((-1, 0))),
    case("epoch-unknown-partition", "OffsetForLeaderEpoch", create(), epochs((-1, 0), index=3)),
)
