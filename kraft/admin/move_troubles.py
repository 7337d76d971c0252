"""Finds the reasons why the move of a partition does not make progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraft.admin.cluster import LogDirectory, describe_cluster, describe_log_dirs
from kraft.admin.copying import Copy, Sizes, bytes_left
from kraft.admin.throttles import Throttle
from kraft.admin.transport import AdminTransport
from kraft.common.ids import TopicPartition

THROTTLED_SECONDS_MAX: Final = 86_400
"""A throttle under which a broker needs longer than a day is named as a trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFacts:
    """The facts about all moves in progress. `is_up` has every registered broker, `directories` the log directories of
    brokers that answer, `ends` the log ends of replicas by broker and partition."""

    is_up: Mapping[int, bool]
    directories: Mapping[int, Sequence[LogDirectory]]
    ends: Mapping[tuple[int, TopicPartition], int]
    sizes: Sizes
    rates: Mapping[int, int]


async def move_facts(
    port: AdminTransport,
    copies: Iterable[Copy],
    ends: Mapping[tuple[int, TopicPartition], int],
    sizes: Sizes,
    throttle: Throttle | None,
) -> MoveFacts:
    """The facts about the targets of `copies`. A broker that does not answer has no directories. Raises Refused."""
    is_up = {each.node_id: not each.is_fenced for each in (await describe_cluster(port)).brokers}

    async def ask(broker_id: int) -> tuple[int, list[LogDirectory]]:
        return broker_id, await describe_log_dirs(port, broker_id, with_replicas=False)

    targets = sorted({copy.target for copy in copies if is_up.get(copy.target)})
    return MoveFacts(
        is_up=is_up,
        directories=dict(await port.ask_brokers(ask, targets)),
        ends=ends,
        sizes=sizes,
        rates={} if throttle is None else throttle.rates,
    )


def troubles(copies: Sequence[Copy], facts: MoveFacts) -> dict[TopicPartition, list[str]]:
    """Messages about each move that does not make progress, by partition. Pure."""
    lacking: dict[int, int] = {}
    for copy in copies:
        lacking[copy.target] = lacking.get(copy.target, 0) + (bytes_left(copy, facts.sizes) or 0)
    found: dict[TopicPartition, dict[str, None]] = {}
    for copy in copies:
        sentences = found.setdefault(copy.partition, {})
        if copy.leader < 0:
            sentences["No broker leads the partition, so there is nothing to copy from: start one that has it."] = None
        sentences.update(dict.fromkeys(_of_target(copy, facts, lacking[copy.target])))
    return {place: list(sentences) for place, sentences in found.items() if sentences}


def _of_target(copy: Copy, facts: MoveFacts, lacking: int) -> list[str]:
    target = f"Broker {copy.target}"
    if copy.target not in facts.is_up:
        return [f"{target} is not registered: start it, or cancel the move."]
    if not facts.is_up[copy.target]:
        return [f"{target} is fenced or down: start it, or cancel the move."]
    directories = facts.directories.get(copy.target)
    if directories is None:
        return [f"{target} does not answer: look at its log and the network."]
    sentences = []
    online = [each for each in directories if not each.error]
    offline = [f"{each.path} ({each.error})" for each in directories if each.error]
    has_begun = (copy.target, copy.partition) in facts.ends
    if offline and (not online or not has_begun):
        sentences.append(f"{target} has offline log directories: {', '.join(offline)}. Mend the disk and restart it.")
    rooms = [each.usable_bytes for each in online if each.usable_bytes >= 0]
    left = bytes_left(copy, facts.sizes) or 0
    if rooms and left > max(rooms):
        sentences.append(f"{target} has room for {max(rooms):,} bytes, and {left:,} are left to copy: make room.")
    if online and not has_begun and copy.leader >= 0 and not offline:
        sentences.append(f"{target} has not begun to fetch from broker {copy.leader}: look at its log if this stays.")
    rate = facts.rates.get(copy.target)
    if rate and lacking / rate > THROTTLED_SECONDS_MAX:
        sentences.append(
            f"At its throttle of {rate:,} bytes a second {target.lower()} needs {lacking / rate / 86_400:.1f} days for "
            "what it has yet to copy: raise the throttle (kraft reassignments throttle)."
        )
    return sentences
