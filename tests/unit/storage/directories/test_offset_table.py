"""The lines of an offset checkpoint that is written again and again."""

from __future__ import annotations

from kraft.common.ids import TopicPartition
from kraft.storage.checkpoints import checkpoint_lines, offset_checkpoint_text
from kraft.storage.directories.offset_table import OffsetTable

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def test_the_offset_table_has_the_text_format_of_kafka() -> None:
    table = OffsetTable()
    assert table.content() == b"0\n0\n"
    table.put(A, 5)
    table.put(B, 0)
    table.put(A, 7)
    assert table.content() == offset_checkpoint_text({A: 7, B: 0}).encode() == b"0\n2\na 0 7\nb 1 0\n"


def test_a_dropped_entry_is_not_counted_in_the_offset_table() -> None:
    table = OffsetTable()
    table.put(A, 5)
    table.put(B, 0)
    table.drop(A)
    table.drop(TopicPartition("never told", 0))
    assert checkpoint_lines("c", table.content().decode()) == [["b", "1", "0"]]


def test_the_offset_table_text_is_cached_until_an_entry_changes() -> None:
    table = OffsetTable()
    table.put(A, 5)
    content = table.content()
    table.put(A, 5)
    table.drop(B)
    assert table.content() is content
    table.drop(A)
    assert table.content() == b"0\n0\n"
