"""Single values of options: numbers, flags, choices, and the JSON that names partitions and offsets (also the
checkpoint's)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kraft.common.ids import TopicPartition

T = TypeVar("T")


def parse_json(text: str, example: str, convert: Callable[[object], T]) -> T:
    try:
        return convert(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"Expected e.g. {example}, got {text}") from None


def parse_partitions(text: str) -> frozenset[TopicPartition]:
    """`{"topicA":[0,1]}`."""

    def of_json(value: Any) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(topic, integer(p)) for topic, ps in value.items() for p in ps)

    return parse_json(text, '{"topicA":[0,1],"topicB":[0,1]}', of_json)


def parse_offsets(
    text: str, example: str = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
) -> dict[TopicPartition, int]:
    """`{"topicA":{"0":23,"1":-1}}`: offsets, sentinels or times by topic and partition."""
    return parse_json(text, example, offsets_of_json)


def integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    return value


def offsets_of_json(value: Any) -> dict[TopicPartition, int]:
    """The inverse of `offsets_to_json`; a query's start beside the offsets (`with_beginning`) is passed over. Raises
    TypeError, AttributeError or ValueError for another shape."""
    return {
        TopicPartition(topic, int(p)): integer(offset)
        for topic, by_partition in value.items()
        for p, offset in by_partition.items()
    }


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets in the shape of the official checkpoint: topic, partition, next offset to read. Sorted, so that equal
    offsets are equal text."""
    shaped: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        shaped.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return shaped


def number(given: Mapping[str, str], name: str, *, at_least: int | None = None, otherwise: str = "") -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    try:
        value = int(text.strip())
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got '{text}'") from None
    if at_least is not None and value < at_least:
        raise ValueError(otherwise)
    return value


def flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError(f"{name} must be true or false, got '{text}'")
    return word == "true"


def choice(given: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    word = given.get(name.lower(), default).strip().lower()
    if word not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got '{word}'")
    return word


def or_else(value: int | None, default: int) -> int:
    return default if value is None else value


BEGINNING = "0"
"""Stands before the number of a partition, where an offset is the query's start: `"07"` beside `"7"`."""


def with_beginning(end: Mapping[TopicPartition, int], beginning: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """The end of a query's first micro-batch, and where the query begins: `{"t":{"00":5,"0":9}}`.

    Spark's Python API gives a source no place of its own in the checkpoint. It keeps the end of each micro-batch there
    before anything is read, so the start travels with the first of them. Numbers of partitions are read as numbers,
    and of two values for one number the later counts: the official connector reads this as the end alone.
    """
    shaped: dict[str, dict[str, int]] = {}
    for partition in sorted(beginning):
        shaped.setdefault(partition.topic, {})[f"{BEGINNING}{partition.partition}"] = beginning[partition]
    for topic, by_partition in offsets_to_json(end).items():
        shaped.setdefault(topic, {}).update(by_partition)
    return shaped


def beginning_of(value: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int] | None:
    """The query's start that `with_beginning` put beside an end; None if there is none."""
    found = {
        TopicPartition(topic, int(p)): integer(offset)
        for topic, by_partition in value.items()
        for p, offset in by_partition.items()
        if len(p) > 1 and p.startswith(BEGINNING)
    }
    return found or None
