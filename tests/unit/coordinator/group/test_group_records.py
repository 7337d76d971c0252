"""Records as Apache Kafka 4.3.1 wrote them (captured from its `__consumer_offsets`), read and written again to the
same bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.errors import ProtocolError
from kraft.common.ids import TopicPartition
from kraft.coordinator.group import group_records
from kraft.coordinator.group.classic.classic_group import EMPTY, STABLE
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.consumer.records import group_metadata, target_metadata
from kraft.coordinator.group.group_shard import GroupShard
from kraft.coordinator.group.shard_state import OffsetAndMetadata
from kraft.coordinator.shard import Moment
from tests.unit.coordinator.fakes import PlainConsumerConfigs, PlainShareConfigs, PlainStreamsConfigs, Topics

GROUP_KEY = b"\x00\x02\x00\x0dg20-341027904"
GROUP_VALUE = (
    b"\x00\x03\x00\x08consumer\x00\x00\x00\x04\x00\x05range\x00\x27c0-0aefcad9-e9f4-47fa-b36c-2c5a104d55d1\x00\x00\x01\xa1\xfd\x90\xb5M\x00\x00\x00\x02"
    b"\x00\x27i3-d1453e99-abe2-4f2b-ad0e-9b81b019c049\x00\x02i3\x00\x02c2\x00\x0a/127.0.0.1\x00\x00\xea`\x00\x00u0"
    b"\x00\x00\x00\x0d\x00\x00\x00\x00\x00\x01\x00\x01u\xff\xff\xff\xff\x00\x00\x00\x05am2@4"
    b"\x00\x27c0-0aefcad9-e9f4-47fa-b36c-2c5a104d55d1\xff\xff\x00\x02c0\x00\x0a/127.0.0.1\x00\x00u0\x00\x00u0"
    b"\x00\x00\x00\x0d\x00\x00\x00\x00\x00\x01\x00\x01u\xff\xff\xff\xff\x00\x00\x00\x05am1@4"
)
OFFSET_KEY = b"\x00\x01\x00\x0eg105-984195088\x00\x01t\x00\x00\x00\x01"
OFFSET_VALUE = (
    b"\x00\x04\x00\x00\x00\x00\x00\x00\x00^\x00\x00\x00\x03\x01\x00\x00\x01\xa1\xfd\x91\xaf\xcf\x01\x00\x10\x94"
    b'po"m\xa0@\xac\x87\x8b\xdd,nE\xe3~'
)
EXPIRING_VALUE = (
    b"\x00\x01\x00\x00\x00\x00\x00\x00\x000\x00\x00\x00\x00\x01\xa1\xfd\x90\xcc\xd2\x00\x00\x01\xa2\x03\x86\xad\xd1"
)


@pytest.fixture
def shard() -> GroupShard:
    return GroupShard(
        GroupCoordinatorConfig(), Topics(), PlainConsumerConfigs(), PlainShareConfigs(), PlainStreamsConfigs()
    )


def test_an_offset_commit_record_is_encoded_as_in_kafka():
    group_id, partition = group_records.decode_offset_commit_key(OFFSET_KEY)
    committed = group_records.decode_offset_commit_value(OFFSET_VALUE, group_records.OFFSET_COMMIT)
    assert (group_id, partition) == ("g105-984195088", TopicPartition("t", 1))
    assert committed == OffsetAndMetadata(94, 3, "", 1795255545807, -1, b'\x94po"m\xa0@\xac\x87\x8b\xdd,nE\xe3~')
    assert group_records.offset_commit_key(group_id, partition) == OFFSET_KEY
    assert group_records.offset_commit_value(committed) == OFFSET_VALUE


def test_an_offset_commit_record_with_its_own_retention_has_version_1():
    committed = group_records.decode_offset_commit_value(EXPIRING_VALUE, group_records.OFFSET_COMMIT)
    assert committed.expire_timestamp_ms - committed.commit_timestamp_ms == 99_999_999
    assert group_records.offset_commit_value(committed) == EXPIRING_VALUE


texts = st.text(max_size=5)
commits = st.tuples(
    st.builds(TopicPartition, st.sampled_from("tu") | texts, st.integers(0, 2**31 - 1)),
    st.builds(
        OffsetAndMetadata,
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.just("") | texts,
        st.integers(0, 2),
        st.just(-1) | st.integers(-1, 9),
        st.sampled_from((bytes(16), b"i" * 16)),
    ),
)


@given(texts, st.lists(commits, max_size=8))
def test_commits_encoded_together_equal_commits_encoded_alone(group_id, written):
    assert group_records.offset_commit_records(group_id, written) == [
        (group_records.offset_commit_key(group_id, partition), group_records.offset_commit_value(committed))
        for partition, committed in written
    ]


def test_a_group_record_is_encoded_as_in_kafka(shard):
    state = shard.replay(shard.empty(), GROUP_KEY, GROUP_VALUE)
    group = state.groups["g20-341027904"]
    assert (group.state, group.generation, group.protocol, group.leader) == (
        STABLE,
        4,
        "range",
        "c0-0aefcad9-e9f4-47fa-b36c-2c5a104d55d1",
    )
    assert group.subscribed_topics == {"u"}
    assert group.static_members == {"i3": "i3-d1453e99-abe2-4f2b-ad0e-9b81b019c049"}
    assert [member.assignment for member in group.members.values()] == [b"am2@4", b"am1@4"]
    value = group_records.group_metadata(
        group, {member.member_id: member.assignment for member in group.members.values()}
    )
    assert group_records.group_metadata_key(group.group_id) == GROUP_KEY
    assert group_records.group_metadata_value(value) == GROUP_VALUE


def test_tombstones_of_groups_and_offsets_are_encoded_as_in_kafka(shard):
    state = shard.replay(shard.empty(), GROUP_KEY, GROUP_VALUE)
    state = shard.replay(state, OFFSET_KEY, OFFSET_VALUE)
    state = shard.replay(state, GROUP_KEY, None)
    assert list(state.groups) == ["g105-984195088"]
    state = shard.replay(state, OFFSET_KEY, None)
    assert not state.offsets
    assert state.groups["g105-984195088"].state is EMPTY, (
        "a simple group is gone with its own tombstone, or when it expires"
    )
    assert shard.replay(state, OFFSET_KEY, None).offsets == state.offsets, "a tombstone of nothing is nothing"


def test_records_of_old_kafka_releases_are_read(shard):
    key = b"\x00\x00" + OFFSET_KEY[2:]
    value = b"\x00\x00" + (7).to_bytes(8, "big") + b"\x00\x04note" + (1000).to_bytes(8, "big")
    state = shard.replay(shard.empty(), key, value)
    assert state.offsets["g105-984195088"][TopicPartition("t", 1)] == OffsetAndMetadata(7, -1, "note", 1000)


@pytest.mark.parametrize("kind", [4, 9, 999])
def test_records_of_unknown_types_are_skipped(shard, kind):
    assert shard.replay(shard.empty(), kind.to_bytes(2, "big") + b"\x00\x01g", b"\x00\x00whatever") == shard.empty()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\x00", None),
        (OFFSET_KEY[:-1], OFFSET_VALUE),
        (OFFSET_KEY, OFFSET_VALUE[:-1]),
        (GROUP_KEY, b"\x00"),
    ],
)
def test_malformed_group_records_are_refused(shard, key, value):
    with pytest.raises(ProtocolError):
        shard.replay(shard.empty(), key, value)


def test_a_falling_group_epoch_or_a_target_of_a_later_epoch_fails_an_assertion(shard: GroupShard) -> None:
    draft = shard.draft(shard.empty(), 1, Moment(0, 0))
    draft.write_consumer("g", group_metadata("g", 5, 0))
    with pytest.raises(AssertionError, match="a target of a later epoch"):
        draft.write_consumer("g", target_metadata("g", 6, 0))
    draft.write_consumer("g", target_metadata("g", 5, 0))
    with pytest.raises(AssertionError, match="would fall from 5 to 4"):
        draft.write_consumer("g", group_metadata("g", 4, 0))
