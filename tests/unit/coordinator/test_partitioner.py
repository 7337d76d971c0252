"""The partition of a group is where every Kafka client and tool expects it."""

from __future__ import annotations

import pytest

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
def test_the_hash_is_javas(text, expected):
    assert java_string_hash(text) == expected


def test_the_hash_without_a_positive_counterpart_is_partition_0():
    assert partition_for("polygenelubricants", 50) == 0


def test_a_negative_hash_counts_as_positive():
    assert java_string_hash("group-zzz") == -1484133140
    assert partition_for("group-zzz", 50) == 40
