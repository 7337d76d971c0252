"""Dead letters of share groups (KIP-1191): the records that tell which records a group has given up, and why.

A record that is rejected, or was delivered as often as its group allows, is stored as archiving. Its letter is written
to the group's dead letter topic. Then the record is archived. The decisions are here: whether a topic may be used, what
a letter contains, and how many fit into one batch. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kraft.coordinator.share.share_state import SharePartitionKey
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Headers, Record, append_record
from kraft.protocol.records.record_batch import HEADER_SIZE
from kraft.replication.partition import Partition

REJECTED: Final = "Offset rejected by client."
DELIVERED_TOO_OFTEN: Final = "Offset delivery count exceeded the threshold."
"""Causes, as letters have them in `__dlq.errors.message`."""

ENABLED: Final = "errors.deadletterqueue.group.enable"
"""The configuration of a topic that allows dead letters in it."""
INTERNAL_PREFIX: Final = "__"


class GivenUp(NamedTuple):
    """Records that a group has given up, `last` inclusive, and the cause."""

    first: int
    last: int
    delivery_count: int
    cause: str


class DeadLetters(Protocol):
    """Writes letters: a port."""

    async def write(self, key: SharePartitionKey, partition: Partition, given_up: Sequence[GivenUp]) -> None:
        """Write a letter for each record of a share partition. Returns once each letter is written, or has failed
        permanently, which is logged and counted."""


class Letter(NamedTuple):
    """The letter of one record."""

    offset: int
    delivery_count: int
    cause: str


class Source(NamedTuple):
    """The group and the partition of records, for the headers of their letters."""

    group_id: str
    topic: str
    partition: int


def letters_of(given_up: Iterable[GivenUp]) -> list[Letter]:
    """Return one letter for each record."""
    return [
        Letter(offset, each.delivery_count, each.cause)
        for each in given_up
        for offset in range(each.first, each.last + 1)
    ]


def refusal_of(group_id: str, topic: str, *, is_enabled: bool | None, may_create: bool, prefix: str) -> str | None:
    """Return why a group's dead letters cannot be written to a topic; None if they can. `is_enabled` is None for a
    topic that does not exist."""
    if not topic:
        return f"share group {group_id} has no dead letter topic any more (errors.deadletterqueue.topic.name)"
    if topic.startswith(INTERNAL_PREFIX):
        return f"the name of the dead letter topic {topic} of share group {group_id} begins with {INTERNAL_PREFIX}"
    if is_enabled is None and not may_create:
        return (
            f"the dead letter topic {topic} of share group {group_id} does not exist, and brokers do not create it: "
            "create it, or set errors.deadletterqueue.auto.create.topics.enable"
        )
    if is_enabled is False:
        return f"the topic {topic} takes no dead letters of share group {group_id}: set its {ENABLED}"
    if not topic.startswith(prefix):
        return (
            f"the name of the dead letter topic {topic} of share group {group_id} does not begin with {prefix} "
            "(errors.deadletterqueue.topic.name.prefix)"
        )
    return None


def build_letters(
    source: Source, letters: Sequence[Letter], copies: Mapping[int, Record], timestamp_ms: int, bytes_max: int
) -> tuple[bytes, int]:
    """Return a batch with as many of the first letters as `bytes_max` permits, at least one, and their number.

    `copies` has the records to copy by offset. A record that does not fit into a batch of its own is not copied.
    """
    records: list[Record] = []
    size = HEADER_SIZE
    for letter in letters:
        headers = _headers(source, letter)
        copy = copies.get(letter.offset)
        record = Record(len(records), timestamp_ms, None, None, headers)
        if copy is not None:
            whole = Record(len(records), timestamp_ms, copy.key, copy.value, headers)
            if HEADER_SIZE + _size(whole) <= bytes_max:
                record = whole
        size += _size(record)
        if records and size > bytes_max:
            break
        records.append(record)
    return build_batch(records), len(records)


def _headers(source: Source, letter: Letter) -> Headers:
    texts = (
        ("__dlq.errors.topic", source.topic),
        ("__dlq.errors.partition", str(source.partition)),
        ("__dlq.errors.offset", str(letter.offset)),
        ("__dlq.errors.group", source.group_id),
        ("__dlq.errors.delivery.count", str(letter.delivery_count)),
        ("__dlq.errors.message", letter.cause),
    )
    return tuple((name, text.encode()) for name, text in texts)


def _size(record: Record) -> int:
    """The size of an encoded record of a batch in which all timestamps are equal."""
    encoded = bytearray()
    append_record(encoded, record.offset, 0, record.key, record.value, record.headers)
    return len(encoded)
