"""kraft/metadata/image/partitions_by_broker.py against a plain table of replicas: carried on from change to change, and
recreated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.metadata.image import partitions_by_broker
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.metadata.image.partitions_by_broker import PartitionsByBroker, PartitionsByBrokerDraft, index_of
from kraft.world.steps import at_once

Key = tuple[bytes, int]
BROKERS = range(1, 4)

keys = st.tuples(st.sampled_from([b"a", b"b"]), st.integers(0, 3))
replicas = st.none() | st.lists(st.sampled_from(BROKERS), unique=True, min_size=1, max_size=3).map(tuple)
images = st.lists(st.lists(st.tuples(keys, replicas), max_size=8), max_size=6)


def registration(on: tuple[int, ...] | None) -> PartitionRegistration | None:
    if on is None:
        return None
    return PartitionRegistration(on, (b"d" * 16,) * len(on), on, (), (), on[0], 0, 0, 0)


def anew(table: dict[Key, tuple[int, ...]]) -> PartitionsByBroker:
    topics: dict[bytes, dict[int, PartitionRegistration]] = {}
    for (topic_id, index), on in sorted(table.items()):
        made = registration(on)
        assert made is not None
        topics.setdefault(topic_id, {})[index] = made
    return at_once(index_of((topic_id, OrderedMap(partitions)) for topic_id, partitions in topics.items()))


def content(index: PartitionsByBroker) -> list[list[Key]]:
    return [list(index.of(broker_id)) for broker_id in BROKERS]


@given(changes=images)
def test_the_index_matches_the_table_however_partitions_move_within_a_change(
    changes: list[list[tuple[Key, tuple[int, ...] | None]]],
) -> None:
    table: dict[Key, tuple[int, ...]] = {}
    index = PartitionsByBroker()
    for moves in changes:
        draft = PartitionsByBrokerDraft(index)
        for key, on in moves:
            draft.moved(key, registration(table.pop(key, None)), registration(on))
            if on is not None:
                table[key] = on
        index = draft.finish()
        assert content(index) == [sorted(key for key, on in table.items() if broker in on) for broker in BROKERS]


def test_an_incrementally_built_index_has_every_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions_by_broker, "PARTITIONS_A_TURN", 3)
    table = {(topic_id, index): (1 + index % 3, 3 - index % 2) for topic_id in (b"a", b"b") for index in range(5)}
    table = {key: tuple(dict.fromkeys(on)) for key, on in table.items()}
    assert content(anew(table)) == [sorted(key for key, on in table.items() if broker in on) for broker in BROKERS]
