"""Fetch: offsets at every border, sizes, long poll, sessions, leader epochs."""

from typing import Any

from tests.vectors.case import Ask, case, create, produced
from tests.vectors.plain import Batch

TEN = [produced(Batch(*(b"%d" % number for number in range(start, start + 5)))) for start in (0, 5)]


def partition(offset: int, index: int = 0, size: int = 1 << 20, **more: Any) -> dict[str, Any]:
    return {"partition": index, "fetch_offset": offset, "partition_max_bytes": size, **more}


def body(*partitions: dict[str, Any], topic: str = "$topic", **more: Any) -> dict[str, Any]:
    topics = [{"topic": topic, "topic_id": f"{topic}.id", "partitions": list(partitions)}] if partitions else []
    return {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": topics, **more}


def ask(*partitions: dict[str, Any], **more: Any) -> Ask:
    return Ask(body(*partitions, **more))


CASES = (
    case("from-start", "Fetch", create(), TEN, ask(partition(0))),
    case("from-middle-of-batch", "Fetch", create(), TEN, ask(partition(7))),
    case("at-end", "Fetch", create(), TEN, ask(partition(10))),
    case("beyond-end", "Fetch", create(), TEN, ask(partition(11))),
    case("negative-offset", "Fetch", create(), TEN, ask(partition(-1))),
    case("empty-log", "Fetch", create(), ask(partition(0)), ask(partition(1))),
    case("one-byte", "Fetch", create(), TEN, ask(partition(0, size=1))),
    case("one-byte-in-all", "Fetch", create(), TEN, ask(partition(0), max_bytes=1)),
    case("zero-bytes", "Fetch", create(), TEN, ask(partition(0, size=0))),
    case("waits-in-vain", "Fetch", create(), TEN, ask(partition(10), max_wait_ms=50, min_bytes=1)),
    case("enough-at-once", "Fetch", create(), TEN, ask(partition(0), max_wait_ms=5000, min_bytes=1)),
    case("read-committed", "Fetch", create(), TEN, ask(partition(0), isolation_level=1)),
    case("bad-isolation", "Fetch", create(), TEN, ask(partition(0), isolation_level=5)),
    case("fetch-from-unknown-topic", "Fetch", ask(partition(0))),
    case(
        "unknown-id",
        "Fetch",
        Ask(body() | {"topics": [{"topic_id": b"0123456789abcdef", "partitions": [partition(0)]}]}),
        versions=(13, 18),
    ),
    case("fetch-unknown-partition", "Fetch", create(), ask(partition(0), partition(3, index=9))),
    case(
        "below-log-start",
        "Fetch",
        create(),
        TEN,
        Ask(
            {"topics": [{"name": "$topic", "partitions": [{"partition_index": 0, "offset": 6}]}], "timeout_ms": 5000},
            api="DeleteRecords",
            version=2,
            hidden=True,
        ),
        ask(partition(0)),
        ask(partition(6)),
    ),
    case(
        "from-two",
        "Fetch",
        create(partitions=2),
        produced(Batch(b"x")),
        produced(Batch(b"y"), partition=1),
        ask(partition(0), partition(0, index=1)),
    ),
    case("current-epoch", "Fetch", create(), TEN, ask(partition(0, current_leader_epoch=0)), versions=(9, 18)),
    case("old-epoch-of-client", "Fetch", create(), TEN, ask(partition(0, current_leader_epoch=-1)), versions=(9, 18)),
    case(
        "newer-epoch-than-leader", "Fetch", create(), TEN, ask(partition(0, current_leader_epoch=7)), versions=(9, 18)
    ),
    case("last-fetched-epoch", "Fetch", create(), TEN, ask(partition(10, last_fetched_epoch=0)), versions=(12, 18)),
    case(
        "last-fetched-epoch-unknown",
        "Fetch",
        create(),
        TEN,
        ask(partition(10, last_fetched_epoch=5)),
        versions=(12, 18),
    ),
    case("last-fetched-beyond", "Fetch", create(), TEN, ask(partition(12, last_fetched_epoch=0)), versions=(12, 18)),
    case("fetch-no-partitions", "Fetch", ask(), versions=(7, 18)),
    case("session-unknown", "Fetch", create(), ask(partition(0), session_id=12345, session_epoch=1), versions=(7, 18)),
    case("session-closed", "Fetch", create(), ask(partition(0), session_id=12345, session_epoch=-1), versions=(7, 18)),
    case(
        "session",
        "Fetch",
        create(partitions=2),
        TEN,
        Ask(body(partition(0), partition(0, index=1), session_id=0, session_epoch=0), save={"session": "session_id"}),
        Ask(body(partition(10), session_id=0, session_epoch=0) | {"session_id": "$session", "session_epoch": 1}),
        produced(Batch(b"more"), partition=1),
        Ask(body() | {"session_id": "$session", "session_epoch": 2}),
        Ask(body() | {"session_id": "$session", "session_epoch": 2}),
        Ask(
            body()
            | {
                "session_id": "$session",
                "session_epoch": 3,
                "forgotten_topics_data": [{"topic": "$topic", "topic_id": "$topic.id", "partitions": [1]}],
            }
        ),
        Ask(body() | {"session_id": "$session", "session_epoch": 4}),
        Ask(body() | {"session_id": "$session", "session_epoch": -1}),
        Ask(body() | {"session_id": "$session", "session_epoch": 5}),
        versions=(7, 18),
    ),
    case("rack", "Fetch", create(), TEN, ask(partition(0), rack_id="somewhere"), versions=(11, 18)),
    case("foreign-cluster", "Fetch", create(), TEN, ask(partition(0), cluster_id="another"), versions=(12, 18)),
)
