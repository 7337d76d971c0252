"""What is typed, and how it is read."""

from __future__ import annotations

import pytest
import typer

from kraft.admin.configs import BROKER, GROUP, TOPIC, Resource
from kraft.admin.offsets import EARLIEST, LATEST
from kraft.cli.admin.cluster.configs import resource_document, split_words
from kraft.cli.admin.offset_reset import Target, choose_target, parse_datetime, parse_duration, parse_topic
from kraft.cli.admin.options import Codec, parse_bootstrap, parse_pairs
from kraft.cli.admin.records.consume import parse_start
from kraft.cli.admin.records.produce import Shape, split_line
from kraft.protocol.records.compression import CODEC_NAMES


def test_bootstrap_servers_are_parsed() -> None:
    assert parse_bootstrap("a:1") == [("a", 1)]
    assert parse_bootstrap("a, b:2") == [("a", 9092), ("b", 2)]
    assert parse_bootstrap("[::1]:3,[fe80::1]") == [("::1", 3), ("fe80::1", 9092)]
    for wrong in ("", "a:", "a:x", ":1", "a:0", "a:65536", "a,,b"):
        with pytest.raises(typer.BadParameter):
            parse_bootstrap(wrong)


def test_key_value_pairs_are_parsed() -> None:
    assert parse_pairs(["a=b", "c=", "d=e=f"], "-c") == {"a": "b", "c": "", "d": "e=f"}
    for wrong in (["a"], ["=b"], ["a=1", "a=2"]):
        with pytest.raises(typer.BadParameter):
            parse_pairs(wrong, "-c")


def test_codecs_have_their_wire_numbers() -> None:
    assert [codec.value for codec in Codec] == list(CODEC_NAMES)
    assert [codec.number for codec in Codec] == [0, 1, 2, 3, 4]


def test_config_resources_are_parsed() -> None:
    assert split_words(["topic", "t", "a=b"]) == (Resource(TOPIC, "t"), ["a=b"])
    assert split_words(["Groups", "g"]) == (Resource(GROUP, "g"), [])
    assert split_words(["broker", "3", "k"]) == (Resource(BROKER, "3"), ["k"])
    assert split_words(["cluster", "k", "l"]) == (Resource(BROKER, ""), ["k", "l"])
    assert (Resource(BROKER, "3").node_id, Resource(BROKER, "").node_id, Resource(TOPIC, "3").node_id) == (
        3,
        None,
        None,
    )
    assert [str(each) for each in (Resource(BROKER, ""), Resource(BROKER, "3"), Resource(TOPIC, "t"))] == [
        "the cluster",
        "broker 3",
        "topic t",
    ]
    assert resource_document(Resource(BROKER, "")) == {"type": "cluster", "name": None}
    for wrong in (["planet"], ["topic"], ["broker", "x"], ["group", ""]):
        with pytest.raises(typer.BadParameter):
            split_words(wrong)


def test_start_positions_are_parsed() -> None:
    assert [parse_start(text) for text in ("beginning", "earliest", "end", "latest")] == [("time", EARLIEST)] * 2 + [
        ("time", LATEST)
    ] * 2
    assert [parse_start(text) for text in ("7", "-7", "@7")] == [("offset", 7), ("tail", 7), ("time", 7)]
    for wrong in ("", "-", "@", "x", "+1"):
        with pytest.raises(typer.BadParameter):
            parse_start(wrong)


def test_topics_with_partitions_are_parsed() -> None:
    assert parse_topic("t") == ("t", None)
    assert parse_topic("t:2,0,2") == ("t", (0, 2))
    for wrong in (":1", "t:", "t:x", "t:1,"):
        with pytest.raises(typer.BadParameter):
            parse_topic(wrong)


def test_times_and_durations_are_parsed() -> None:
    assert parse_datetime("1970-01-01T00:00:01.5Z") == 1500
    assert parse_datetime("1970-01-01T01:00:00+01:00") == 0
    assert parse_datetime("1970-01-02") == 86_400_000, "UTC unless it says otherwise"
    for early in ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.998Z", "1900-01-01"):
        assert parse_datetime(early) == 0, "a negative time would be the end or the begin of the log"
    assert [parse_duration(text) for text in ("90s", "1m", "1h1s", "1d")] == [90_000, 60_000, 3_601_000, 86_400_000]
    for wrong in ("", "5", "h", "1h1d", "P1D"):
        with pytest.raises(typer.BadParameter):
            parse_duration(wrong)


def test_an_offset_reset_takes_exactly_one_target() -> None:
    nothing = {
        "to_earliest": False,
        "to_latest": False,
        "to_current": False,
        "to_offset": None,
        "shift_by": None,
        "to_datetime": None,
        "by_duration": None,
    }
    chosen = {
        "to_earliest": (True, Target(time=EARLIEST)),
        "to_latest": (True, Target(time=LATEST)),
        "to_current": (True, Target(current=True)),
        "to_offset": (0, Target(offset=0)),
        "shift_by": (0, Target(shift=0)),
        "to_datetime": ("1970-01-01", Target(time=0)),
        "by_duration": ("1s", Target(time=9000)),
    }
    for option, (value, target) in chosen.items():
        assert choose_target(**{**nothing, option: value}, now_ms=10_000) == target  # type: ignore[arg-type]  # Options by name.
    since_long = choose_target(**{**nothing, "by_duration": "1s"}, now_ms=998)  # type: ignore[arg-type]  # As above.
    assert since_long == Target(time=0), "-2 would be the begin of the log"
    for wrong in (nothing, {**nothing, "to_latest": True, "to_offset": 0}):
        with pytest.raises(typer.BadParameter):
            choose_target(**wrong, now_ms=0)  # type: ignore[arg-type]  # As above.


def test_a_line_is_split_into_key_and_value() -> None:
    plain = Shape(None, None, (), None, False)
    assert split_line(b"a:b", plain) == (None, b"a:b")
    assert split_line(b"a:b:c", plain._replace(separator=b":")) == (b"a", b"b:c")
    assert split_line(b"abc", plain._replace(separator=b":")) == (None, b"abc")
    assert split_line(b":", plain._replace(separator=b":")) == (b"", b"")
    assert split_line(b":", plain._replace(separator=b":", empty_is_null=True)) == (None, None)
    assert split_line(b"v", plain._replace(key=b"k")) == (b"k", b"v")
