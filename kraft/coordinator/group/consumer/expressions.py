"""Patterns that members subscribe to (SubscribedTopicRegex): when they are matched, and how the result is used.

A pattern is matched against all topic names by a job beside the heartbeats. A heartbeat requests the job
(`ResolveExpressions`) when a member brings a new pattern, after topics were created or deleted, and periodically. The
result is written as a record of the group (`adopt_expressions`), and the next heartbeats compute a target with it. All
patterns are matched together, so that they cause one rebalance.

As in Kafka, the job matches only topics that the member whose heartbeat requested it may describe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraft.coordinator.group.consumer import records
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from kraft.coordinator.group.consumer.member import ConsumerMember
from kraft.coordinator.group.consumer.membership import bump_epoch
from kraft.coordinator.group.consumer.target import metadata_hash
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.regular_expression import RegularExpression
from kraft.world.steps import Steps

REFRESH_MS_MIN: Final = 10_000
"""The shortest time between two matchings of a group's patterns. Not configurable in Kafka either."""

MayDescribe = Callable[[str], bool]
"""Whether the requesting member may describe the topic of this name. May raise ApiError."""


@dataclass(frozen=True, slots=True)
class ResolveExpressions:
    """An effect: match these patterns in a job, and pass the result to `adopt_expressions`."""

    group_id: str
    expressions: tuple[str, ...]
    may_describe: MayDescribe


# In a heartbeat.


def check_expression(group: ConsumerGroup, member: ConsumerMember) -> None:
    """Raises ApiError INVALID_REGULAR_EXPRESSION for an invalid pattern. Patterns that the group already has
    are valid."""
    if member.regex and member.regex not in group.regex_subscribers:
        RegularExpression(member.regex, "SubscribedTopicRegex")


def refresh_expressions(draft: GroupDraft, group: ConsumerGroup, may_describe: MayDescribe) -> None:
    """Request a match of the group's patterns if one is due."""
    if group.regex_subscribers and _is_due(draft, group):
        draft.effects.append(ResolveExpressions(group.group_id, tuple(sorted(group.regex_subscribers)), may_describe))


def _is_due(draft: GroupDraft, group: ConsumerGroup) -> bool:
    """Whether the patterns must be matched again. True also if the last match is in the future: the clock was set
    back."""
    if not group.regexes:
        return True
    since_ms = draft.wall_ms - max(resolved.timestamp_ms for resolved in group.regexes.values())
    if 0 <= since_ms <= REFRESH_MS_MIN:
        return False
    return (
        not 0 <= since_ms <= draft.config.group_consumer_regex_refresh_interval_ms
        or any(regex not in group.regexes for regex in group.regex_subscribers)
        or min(resolved.version for resolved in group.regexes.values()) < draft.topics.names_version()
    )


# In the job.


def matching(expression: RegularExpression, names: Sequence[str]) -> list[str]:
    """The names that the whole pattern matches."""
    return [name for name in names if expression.matches(name)]


def describable(matched: Mapping[str, Sequence[str]], may_describe: MayDescribe) -> Steps[dict[str, frozenset[str]]]:
    """The topics that each pattern matched, without those that may not be described. Yields after each name. Raises
    what `may_describe` raises."""
    seen: set[str] = set()
    for name in sorted(set().union(*matched.values())):
        if may_describe(name):
            seen.add(name)
        yield None
    return {regex: frozenset(name for name in names if name in seen) for regex, names in matched.items()}


# After the job.


def adopt_expressions(draft: GroupDraft, group_id: str, resolved: Mapping[str, ResolvedRegex]) -> None:
    """Write the topics that the patterns match now, for patterns that still have a subscriber. The group epoch rises if
    an existing topic was added to a pattern or removed from it."""
    group = draft.consumer_group(group_id)
    if group is None:
        return
    has_changed = False
    for regex in sorted(resolved):
        before, after = group.regexes.get(regex), resolved[regex]
        if regex not in group.regex_subscribers or (before is not None and before.version > after.version):
            continue
        other = after.topics if before is None else before.topics ^ after.topics
        has_changed = has_changed or any(draft.topics.topic_id(name) is not None for name in other)
        draft.write_consumer(group_id, records.regular_expression(group_id, regex, after))
    group = draft.require_consumer_group(group_id)
    if has_changed or metadata_hash(group.subscribed_topics(), draft.topics) != group.metadata_hash:
        bump_epoch(draft, group_id)
