"""Every attempt of a task of a micro-batch arrives at the same producer, and no other does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.client.partitioner import partition_for_key
from kraft.protocol.records.record_batch import RecordBatch
from kraft.spark.batch_encoder import Row, encode_batch
from kraft.spark.batch_identity import EPOCHS, ID_FLAG, BatchIdentity

np = pytest.importorskip("numpy")


def test_producers_differ_by_query_task_era_sink_and_partitions_and_by_nothing_else() -> None:
    one = BatchIdentity("query", 5, 1)
    assert one.producer_id(3) == BatchIdentity("query", 6, 1).producer_id(3)
    others = [
        BatchIdentity("other", 5, 1).producer_id(3),
        BatchIdentity("query", 5, 2).producer_id(3),
        BatchIdentity("query", 5 + EPOCHS, 1).producer_id(3),
        BatchIdentity("query", 5, 1, "second").producer_id(3),
        one.producer_id(4),
    ]
    assert len({one.producer_id(3), *others}) == 6


@given(st.text(), st.integers(0, 10**12), st.integers(0, 10**6), st.integers(1, 10**5))
def test_ids_and_epochs_are_what_the_wire_can_carry(query: str, batch: int, task: int, partitions: int) -> None:
    identity = BatchIdentity(query, batch, task)
    assert ID_FLAG <= identity.producer_id(partitions) < 2**63
    assert 0 <= identity.epoch < 2**15 - 1


def test_a_later_batch_of_an_era_has_a_later_epoch() -> None:
    assert [BatchIdentity("q", batch, 0).epoch for batch in (0, 1, EPOCHS - 1, EPOCHS)] == [0, 1, EPOCHS - 1, 0]


@given(st.lists(st.binary(max_size=40), max_size=60), st.integers(1, 50))
def test_a_column_of_keys_goes_where_each_key_goes(keys: list[bytes], partitions: int) -> None:
    from kraft.spark.once_writer import partitions_of

    assert partitions_of(keys, partitions).tolist() == [partition_for_key(key, partitions) for key in keys]


some_bytes = st.one_of(st.none(), st.binary(max_size=200))
some_headers = st.lists(st.tuples(st.text(max_size=4), some_bytes), max_size=2).map(tuple)


@given(
    st.lists(st.builds(Row, st.integers(0, 2**45), some_bytes, some_bytes, some_headers), min_size=1, max_size=12),
    st.integers(0, 4),
    st.integers(0, 9999),
)
def test_rows_are_encoded_as_a_batch_that_decodes_to_them(rows: list[Row], codec: int, sequence: int) -> None:
    batch = RecordBatch(encode_batch(rows, codec, ID_FLAG | 7, 3, sequence))
    batch.check_frame()
    batch.verify_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_offset_delta) == (
        ID_FLAG | 7,
        3,
        sequence,
        len(rows) - 1,
    )
    assert batch.max_timestamp == max(row.timestamp for row in rows)
    assert [(each.timestamp, each.key, each.value, each.headers) for each in batch.records()] == rows
