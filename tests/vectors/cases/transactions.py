"""The transaction coordinator's APIs. Producers of transaction.version 0 and 2 meet one whose cluster has 2."""

from typing import Any

from tests.vectors.case import Ask, case, create

INIT, ADD, OFFSETS, END = "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"
STRANGE_ID, ZERO_ID = b"no such topic id", bytes(16)
DESCRIBE, LIST, MARKERS, COMMIT = "DescribeTransactions", "ListTransactions", "WriteTxnMarkers", "TxnOffsetCommit"
ID = "$transaction"
PRODUCER = {"producer_id": "$pid", "producer_epoch": "$epoch"}
LATER = 0.4
"""Seconds after which the markers of a transaction that has ended are written."""
SAVE = {"pid": "producer_id", "epoch": "producer_epoch"}


def init(timeout_ms: int = 60_000, **more: Any) -> Ask:
    return Ask({"transactional_id": ID, "transaction_timeout_ms": timeout_ms, **more}, save=SAVE)


def setup(timeout_ms: int = 60_000, pause_s: float = 0.0, **more: Any) -> Ask:
    ask = init(timeout_ms, **more)
    return Ask(ask.body, api=INIT, version=4, save=SAVE, hidden=True, pause_s=pause_s)


def adding(*indexes: int, topic: str = "$topic", **more: Any) -> dict[str, Any]:
    producer = {**PRODUCER, "transactional_id": ID, **more}
    topics = [{"name": topic, "partitions": list(indexes)}]
    old = {f"v3_and_below_{name}": value for name, value in producer.items()}
    return {**old, "v3_and_below_topics": topics, "transactions": [{**producer, "topics": topics}]}


def add(*indexes: int, **more: Any) -> Ask:
    return Ask(adding(*indexes, **more), version=3, api=ADD)


def added(*indexes: int) -> Ask:
    """Setup: the transaction is open."""
    return Ask(adding(*indexes), api=ADD, version=3, hidden=True)


def verify(*indexes: int, topic: str = "$topic", **more: Any) -> Ask:
    topics = [{"name": topic, "partitions": list(indexes)}]
    transaction = {"transactional_id": ID, **PRODUCER, "verify_only": True, "topics": topics, **more}
    return Ask({"transactions": [transaction]})


def end(committed: bool = True, pause_s: float = 0.0, **more: Any) -> Ask:
    return Ask({"transactional_id": ID, **PRODUCER, "committed": committed, **more}, api=END, pause_s=pause_s)


def ended(committed: bool = True, version: int = 4, **more: Any) -> Ask:
    """Setup, by a client of transaction.version 0."""
    ask = end(committed, **more)
    return Ask(ask.body, api=END, version=version, hidden=True)


def describe(*ids: str, pause_s: float = 0.0, mask: tuple[str, ...] = ()) -> Ask:
    return Ask(
        {"transactional_ids": list(ids or (ID,))},
        api=DESCRIBE,
        version=0,
        mask=("transaction_start_time_ms", *mask),
        pause_s=pause_s,
    )


def listing(pause_s: float = 0.0, **more: Any) -> Ask:
    return Ask({"state_filters": [], "producer_id_filters": ["$pid"], **more}, pause_s=pause_s)


def marker(topic: str = "$topic", index: int = 0, committed: bool = True, **more: Any) -> dict[str, Any]:
    topics = [{"name": topic, "partition_indexes": [index]}]
    return {
        "producer_id": 4_000_100,
        "producer_epoch": 3,
        "transaction_result": committed,
        "topics": topics,
        "coordinator_epoch": 7,
        **more,
    }


def commit(**more: Any) -> Ask:
    partitions = [{"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 0, "committed_metadata": "n"}]
    return Ask(
        {
            "transactional_id": ID,
            "group_id": "$group",
            **PRODUCER,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": "$topic", "topic_id": "$topic.id", "partitions": partitions}],
            **more,
        },
        api=COMMIT,
    )


def by_id(topic_id: str | bytes, *indexes: int) -> dict[str, Any]:
    partitions = [
        {"partition_index": index, "committed_offset": 5, "committed_leader_epoch": 0, "committed_metadata": "n"}
        for index in indexes
    ]
    return {"topic_id": topic_id, "partitions": partitions}


def offsets(require_stable: bool = False, pause_s: float = 0.0) -> Ask:
    group = {"group_id": "$group", "topics": [{"name": "$topic", "partition_indexes": [0]}]}
    return Ask(
        {**group, "groups": [group], "require_stable": require_stable}, api="OffsetFetch", version=8, pause_s=pause_s
    )


ADD_OFFSETS = Ask({"transactional_id": ID, **PRODUCER, "group_id": "$group"}, api=OFFSETS)
ADDED_OFFSETS = Ask(ADD_OFFSETS.body, api=OFFSETS, version=3, hidden=True)

CASES = (
    case(
        "find-coordinator-of-transaction", "FindCoordinator", Ask({"key": ID, "key_type": 1, "coordinator_keys": [ID]})
    ),
    case("producer", INIT, init(), init(), init()),
    case("timeouts", INIT, init(0), init(-1), init(900_000), init(900_001)),
    case(
        "producer-again",
        INIT,
        init(),
        init(**PRODUCER),
        init(**PRODUCER),
        init(producer_id="$pid", producer_epoch=1),
        init(producer_id="$pid", producer_epoch=0),
        init(producer_id="$pid", producer_epoch=9),
        init(producer_id=4_000_001, producer_epoch=2),
        versions=(3, 5),
    ),
    case(
        "producer-over-open-transaction",
        INIT,
        create(),
        setup(),
        added(0),
        init(),
        describe(pause_s=LATER),
        init(),
        describe(),
        versions=(2, 5),
    ),
    case(
        "producer-with-claim-over-open-transaction",
        INIT,
        create(),
        setup(),
        added(0),
        Ask({"transactional_id": ID, "transaction_timeout_ms": 1000, **PRODUCER}),
        describe(pause_s=LATER),
        Ask({"transactional_id": ID, "transaction_timeout_ms": 1000, **PRODUCER}),
        describe(),
        versions=(3, 5),
    ),
    case(
        "add",
        ADD,
        create(partitions=2),
        setup(),
        Ask(adding(0)),
        Ask(adding(0, 1)),
        describe(mask=("partitions",)),
        Ask(adding(0, 5)),
        Ask(adding(0, topic="$topic2")),
        Ask(adding(0, producer_epoch=7)),
        Ask(adding(0, producer_id=4_000_001)),
        Ask(adding(0, transactional_id="$group")),
        Ask(adding(0, transactional_id="")),
        Ask(adding(1, 1)),
        versions=(0, 3),
    ),
    case(
        "verify",
        ADD,
        create(partitions=2),
        setup(),
        verify(0),
        added(0),
        verify(0),
        verify(0, 1),
        verify(0, 7),
        verify(0, producer_epoch=7),
        verify(0, producer_id=4_000_001),
        verify(0, transactional_id="$group"),
        verify(0, transactional_id=""),
        versions=(4, 5),
    ),
    case(
        "add-for-producer",
        ADD,
        create(partitions=2),
        setup(),
        verify(0, verify_only=False),
        describe(),
        verify(0, 1, verify_only=False),
        verify(1, verify_only=False, producer_epoch=4),
        describe(mask=("partitions",)),
        versions=(4, 5),
    ),
    case(
        "add-offsets",
        OFFSETS,
        setup(),
        ADD_OFFSETS,
        ADD_OFFSETS,
        Ask({**ADD_OFFSETS.body, "producer_epoch": 5}, api=OFFSETS),
        Ask({**ADD_OFFSETS.body, "producer_id": 4_000_001}, api=OFFSETS),
        Ask({**ADD_OFFSETS.body, "transactional_id": ""}, api=OFFSETS),
    ),
    case(
        "commit",
        END,
        create(),
        setup(),
        added(0),
        end(),
        end(pause_s=LATER),
        end(committed=False),
        describe(pause_s=LATER),
        setup(),
        describe(),
    ),
    case(
        "abort",
        END,
        create(),
        setup(),
        added(0),
        end(committed=False),
        end(committed=False, pause_s=LATER),
        end(committed=True, pause_s=LATER),
        describe(),
        versions=(4, 5),
    ),
    case(
        "end-of-nothing",
        END,
        setup(),
        end(),
        describe(),
        end(committed=False),
        describe(pause_s=LATER),
        versions=(4, 5),
    ),
    case(
        "end-by-others",
        END,
        create(),
        setup(),
        added(0),
        end(producer_epoch=4),
        end(producer_id=4_000_001),
        end(transactional_id="$group"),
        end(transactional_id=""),
        describe(),
    ),
    case(
        "next-transaction",
        END,
        create(),
        setup(),
        added(0),
        Ask({"transactional_id": ID, **PRODUCER, "committed": True}, api=END, version=5, save=SAVE),
        Ask(adding(0), api=ADD, version=3, pause_s=LATER),
        Ask({"transactional_id": ID, **PRODUCER, "committed": False}, api=END, version=5, save=SAVE),
        describe(pause_s=LATER),
        versions=(5, 5),
    ),
    case(
        "abort-after-commit",
        END,
        create(),
        setup(),
        added(0),
        Ask({"transactional_id": ID, **PRODUCER, "committed": True}, api=END, version=5, save=SAVE),
        end(committed=False, pause_s=LATER),
        describe(pause_s=LATER),
        versions=(5, 5),
    ),
    case("described", DESCRIBE, setup(), describe(), describe("$group"), describe("")),
    case(
        "listed",
        LIST,
        create(),
        setup(),
        listing(),
        listing(state_filters=["Empty"]),
        listing(state_filters=["Ongoing"]),
        listing(state_filters=["Ongoing", "Planned", "Dead", "PrepareEpochFence"]),
        added(0),
        listing(state_filters=["Ongoing"]),
        listing(duration_filter=600_000),
        listing(duration_filter=0, pause_s=0.05),
        listing(producer_id_filters=[4_000_001]),
        versions=(0, 2),
    ),
    case(
        "listed-by-pattern",
        LIST,
        create(),
        setup(),
        *(
            listing(transactional_id_pattern=pattern)
            for pattern in ("", ".*", "no-such-.*", "[a-z]", "(", "a**", "(?!a)b")
        ),
        versions=(2, 2),
    ),
    case(
        "markers",
        MARKERS,
        create(),
        Ask({"markers": [marker()]}),
        Ask({"markers": [marker(producer_epoch=2)]}),
        Ask({"markers": [marker(producer_epoch=4, coordinator_epoch=6)]}),
        Ask({"markers": [marker(producer_epoch=4, coordinator_epoch=8)]}),
        Ask({"markers": [marker(index=3)]}),
        Ask({"markers": [marker(topic="$topic2")]}),
        Ask({"markers": []}),
    ),
    case(
        "offsets-committed",
        COMMIT,
        create(),
        setup(),
        ADDED_OFFSETS,
        commit(),
        offsets(),
        offsets(require_stable=True),
        ended(),
        offsets(require_stable=True, pause_s=LATER),
        versions=(0, 4),
    ),
    case(
        "offsets-aborted",
        COMMIT,
        create(),
        setup(),
        ADDED_OFFSETS,
        commit(),
        ended(committed=False),
        offsets(require_stable=True, pause_s=LATER),
        versions=(4, 4),
    ),
    case(
        "offsets-added-on-the-way",
        COMMIT,
        create(),
        setup(),
        commit(),
        offsets(require_stable=True),
        describe(),
        Ask({"transactional_id": ID, **PRODUCER, "committed": True}, api=END, version=5, hidden=True),
        offsets(require_stable=True, pause_s=LATER),
        versions=(5, 6),
    ),
    case(
        "offsets-by-id-refused",
        COMMIT,
        create(),
        setup(),
        commit(topics=[by_id(STRANGE_ID, 0, 1), by_id("$topic.id", 0, 9)]),
        commit(topics=[by_id(ZERO_ID, 0)]),
        commit(generation_id_or_member_epoch=3, member_id="m"),
        commit(topics=[by_id(STRANGE_ID, 0)], group_id=""),
        commit(topics=[]),
        versions=(6, 6),
    ),
    case(
        "offsets-refused",
        COMMIT,
        create(),
        setup(),
        commit(),
        ADDED_OFFSETS,
        commit(producer_epoch=9),
        commit(producer_id=4_000_001),
        commit(generation_id_or_member_epoch=3, member_id="m"),
        commit(group_id=""),
        commit(transactional_id=""),
        commit(topics=[{"name": "$topic2", "partitions": []}]),
        versions=(0, 4),
    ),
)
