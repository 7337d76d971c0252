"""Objects say which segment they belong to."""

from __future__ import annotations

from kraft.remote.object_names import OBJECT_SUFFIXES, object_name, partition_folder, segment_id_of
from tests.unit.remote.support import PARTITION, segment, uuid


def test_an_object_name_contains_topic_partition_offset_and_segment() -> None:
    one = segment(7, 1234, 5678)
    assert partition_folder(PARTITION) == "orders-ABEiM0RVZneImaq7zN3u_w/3"
    assert object_name(one, ".log") == "orders-ABEiM0RVZneImaq7zN3u_w/3/00000000000000001234-AAAAAAAAAAAAAAAAAAAABw.log"
    assert len({object_name(one, suffix) for suffix in OBJECT_SUFFIXES}) == 6


def test_the_segment_is_parsed_from_every_object_name() -> None:
    for number in (7, (1 << 128) - 1):
        for suffix in OBJECT_SUFFIXES:
            assert segment_id_of(object_name(segment(number, 1234, 5678), suffix)) == uuid(number)


def test_other_object_names_belong_to_no_segment() -> None:
    name = object_name(segment(7, 1234, 5678), ".log")
    for other in ("", "readme.txt", name[:-1] + "G", name + "/x", name.replace("-AAAA", "-AAA"), "x" + name[-47:]):
        assert segment_id_of(other) is None
