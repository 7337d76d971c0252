"""Parse single option values: numbers, flags, choices, and the JSON of partitions and offsets (also in checkpoints)."""

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
    """Parse partitions such as `{"topicA":[0,1]}`."""

    def of_json(value: Any) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(topic, integer(p)) for topic, ps in value.items() for p in ps)

    return parse_json(text, '{"topicA":[0,1],"topicB":[0,1]}', of_json)


def parse_offsets(
    text: str, example: str = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
) -> dict[TopicPartition, int]:
    """Parse `{"topicA":{"0":23,"1":-1}}`: offsets, sentinels or times by topic and partition."""
    return parse_json(text, example, offsets_of_json)


def integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    return value


def offsets_of_json(value: Any) -> dict[TopicPartition, int]:
    """Parse the output of `offsets_to_json`. A start beside the offsets (`with_beginning`) is ignored. Raises
    TypeError, AttributeError or ValueError for another format."""
    return {
        TopicPartition(topic, int(p)): integer(offset)
        for topic, by_partition in value.items()
        for p, offset in by_partition.items()
    }


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Format offsets as the official checkpoint does: topic, partition, next offset to read. Sorted, so that equal
    offsets give equal text."""
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
"""The prefix of a partition number whose offset is the start of the batch: `"07"` beside `"7"`."""


def with_beginning(
    end: Mapping[TopicPartition, int],
    beginning: Mapping[TopicPartition, int],
    unlike: Mapping[str, Any] | None = None,
    prefix: str = BEGINNING,
) -> dict[str, Any]:
    """Return the end offsets of a micro-batch together with its start offsets: `{"t":{"00":5,"0":9}}`.

    Spark's Python API lets a source store nothing in the checkpoint except the end of each micro-batch, which is stored
    before the batch is read. So a start that differs from the end of the batch before is stored with the end. Partition
    keys are parsed as numbers, and of two entries for one number the last counts: the official connector reads only the
    end.

    Spark plans no batch if the end has the same text as the start, `unlike`. So if the texts would be equal, a further
    `prefix` is put before the partition numbers. This happens if a topic was recreated twice with as many records.
    """
    shaped: dict[str, dict[str, int]] = {}
    for partition in sorted(beginning):
        shaped.setdefault(partition.topic, {})[f"{prefix}{partition.partition}"] = beginning[partition]
    for topic, by_partition in offsets_to_json(end).items():
        shaped.setdefault(topic, {}).update(by_partition)
    return with_beginning(end, beginning, unlike, prefix + BEGINNING) if shaped == unlike else shaped


def beginning_of(value: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int] | None:
    """Return the start that `with_beginning` stored beside an end; None if there is none."""
    found = {
        TopicPartition(topic, int(p)): integer(offset)
        for topic, by_partition in value.items()
        for p, offset in by_partition.items()
        if len(p) > 1 and p.startswith(BEGINNING)
    }
    return found or None
