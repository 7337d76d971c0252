"""The partition of a group is where every Kafka client and tool expects it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator.partitioner import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("console-consumer-12345", 158455506),
        ("é", 233),
        ("\U0001f600", 1772899),
    ],
)
def test_the_partitioner_uses_the_string_hash_of_java(text, expected):
    assert java_string_hash(text) == expected


@given(st.text(max_size=100) | st.text(st.characters(max_codepoint=127), min_size=60, max_size=70))
def test_the_string_hash_equals_the_sum_defined_by_java(text):
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(encoded), 2):
        value = (31 * value + int.from_bytes(encoded[place : place + 2])) % 2**32
    assert java_string_hash(text) % 2**32 == value
    assert -(2**31) <= java_string_hash(text) < 2**31


def test_a_hash_without_a_positive_counterpart_maps_to_partition_0():
    assert partition_for("polygenelubricants", 50) == 0


def test_a_negative_hash_is_used_as_its_absolute_value():
    assert java_string_hash("group-zzz") == -1484133140
    assert partition_for("group-zzz", 50) == 40
