"""Plans a reset of a group's offsets: the partitions, and the new offset of each. Pure, except for its requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import typer

from kraft.admin import topics
from kraft.admin.offsets import EARLIEST, LATEST, list_offsets, offsets_at
from kraft.cli.admin.running import NotFound
from kraft.common.ids import TopicPartition
from kraft.rpc_client.cluster import Cluster

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


class Target(NamedTuple):
    """The target of a reset: exactly one of a time (EARLIEST, LATEST, or ms since 1970), an offset, a shift, the
    current offset."""

    time: int | None = None
    offset: int | None = None
    shift: int | None = None
    current: bool = False


Wanted = tuple[str, tuple[int, ...] | None]
"""A topic and its partitions; None: all partitions."""


class Move(NamedTuple):
    """The change of one partition. `before` is None if the group has no offset there."""

    partition: TopicPartition
    before: int | None
    after: int


def parse_topic(text: str) -> Wanted:
    """Parse `TOPIC` or `TOPIC:0,1,2`, as in Kafka's tool. Raises typer.BadParameter (exit 2)."""
    topic, separator, indexes = text.partition(":")
    if topic and not separator:
        return topic, None
    if not topic or not all(index.strip().isdigit() for index in indexes.split(",")):
        raise typer.BadParameter(f"{text!r} is not TOPIC or TOPIC:0,1,2", param_hint="--topic")
    return topic, tuple(sorted({int(index) for index in indexes.split(",")}))


def parse_datetime(text: str, option: str = "--to-datetime") -> int:
    """Parse RFC 3339 (UTC without an offset) into ms since 1970; earlier times become 0, as negative ones have special
    meanings (EARLIEST, LATEST). Raises typer.BadParameter (exit 2)."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no date and time like 2026-01-31T08:00:00Z", param_hint=option) from None
    return max(0, round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))


def parse_duration(text: str, option: str = "--by-duration") -> int:
    """Parse `1d12h30m5s` into ms. Raises typer.BadParameter (exit 2)."""
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise typer.BadParameter(f"{text!r} is no duration like 36h or 1d12h30m", param_hint=option)
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000


def choose_target(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    shift_by: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    now_ms: int,
) -> Target:
    """The target of the options, of which exactly one must be given. Raises typer.BadParameter (exit 2)."""
    return _only(
        {
            "--to-earliest": Target(time=EARLIEST) if to_earliest else None,
            "--to-latest": Target(time=LATEST) if to_latest else None,
            "--to-current": Target(current=True) if to_current else None,
            "--to-offset": Target(offset=to_offset) if to_offset is not None else None,
            "--shift-by": Target(shift=shift_by) if shift_by is not None else None,
            "--to-datetime": Target(time=parse_datetime(to_datetime)) if to_datetime is not None else None,
            "--by-duration": (
                Target(time=max(0, now_ms - parse_duration(by_duration))) if by_duration is not None else None
            ),
        }
    )


def choose_share_target(
    *, to_earliest: bool, to_latest: bool, to_offset: int | None, to_datetime: str | None
) -> Target:
    """The target of the options for a share group, of which exactly one must be given. Raises typer.BadParameter (exit
    2)."""
    return _only(
        {
            "--to-earliest": Target(time=EARLIEST) if to_earliest else None,
            "--to-latest": Target(time=LATEST) if to_latest else None,
            "--to-offset": Target(offset=to_offset) if to_offset is not None else None,
            "--to-datetime": Target(time=parse_datetime(to_datetime)) if to_datetime is not None else None,
        }
    )


def _only(given: Mapping[str, Target | None]) -> Target:
    """The one target that was given. Raises typer.BadParameter, which names the options."""
    targets = [target for target in given.values() if target is not None]
    if len(targets) != 1:
        raise typer.BadParameter(f"give the new position with one of {', '.join(given)}")
    return targets[0]


async def choose_partitions(
    cluster: Cluster, wanted: Sequence[Wanted], present: Mapping[TopicPartition, int | None]
) -> list[TopicPartition]:
    """The partitions of `wanted`; if empty, all for which the group has an offset at present. Raises NotFound,
    ApiError."""
    if not wanted:
        if not present:
            raise NotFound("the group has no offsets", "--topic TOPIC names what to reset")
        return list(present)
    chosen: list[TopicPartition] = []
    for name, indexes in wanted:
        [topic] = await topics.describe_topics(cluster, [name])
        chosen += (
            topic.topic_partitions()
            if indexes is None
            else [TopicPartition(name, topic.partition(index).index) for index in indexes]
        )
    return chosen


async def plan_moves(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    present: Mapping[TopicPartition, int | None],
    target: Target,
) -> list[Move]:
    """Every change of the group's present offsets, limited to the partitions' logs."""
    begins = await offsets_at(cluster, partitions, EARLIEST)
    ends = await offsets_at(cluster, partitions, LATEST)
    if target.time is not None:
        found = await list_offsets(cluster, dict.fromkeys(partitions, target.time))
        wanted = {partition: at.offset if at.offset >= 0 else ends[partition] for partition, at in found.items()}
    else:
        wanted = {partition: _offset(target, present.get(partition), ends[partition]) for partition in partitions}
    moves = []
    for partition in partitions:
        after = min(max(wanted[partition], begins[partition]), ends[partition])
        moves.append(Move(partition, present.get(partition), after))
    return moves


def _offset(target: Target, present: int | None, end: int) -> int:
    """The new offset of a partition. Without a committed offset the current one is the end, as in Kafka's tool."""
    if target.offset is not None:
        return target.offset
    return (end if present is None else present) + (target.shift or 0)
