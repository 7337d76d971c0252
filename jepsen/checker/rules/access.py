"""The rules of access and of quotas: 28 and 29."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jepsen.checker.analysis import Analysis
from jepsen.checker.operations import FAIL, OK, Asked, Permission, Throttled

FASTEST: Final = 2.0
"""The fastest clock of a node, in seconds a second: its waits are shorter by this factor."""


def let_in(analysis: Analysis) -> Iterator[str]:
    """28: a user is authorized if the node's own metadata allow it, and only then; never without a permission granted
    before; and never after the permission was revoked after healing."""
    changes: dict[tuple[str, str, str], list[Permission]] = {}
    for change in analysis.history.of(Permission):
        if change.outcome != FAIL:
            changes.setdefault((change.user, change.topic, "write"), []).append(change)
    for asked in analysis.history.of(Asked):
        of_user = changes.get((asked.user, asked.topic, asked.operation), [])
        what = f"{asked.user} {asked.operation} {asked.topic} at {asked.began:.3f}"
        if asked.expected is not None and asked.expected != asked.is_allowed:
            metadata = f"although its metadata {'allow' if asked.expected else 'do not allow'} it"
            yield f"node {asked.node} {'lets' if asked.is_allowed else 'does not let'} {what}, {metadata}"
        elif asked.is_allowed and not any(each.is_granted and each.began <= _end(asked) for each in of_user):
            yield f"node {asked.node} lets {what}, which nobody ever allowed"
        elif asked.is_allowed and of_user and _is_taken_for_good(analysis, of_user[-1], asked):
            yield f"node {asked.node} lets {what}, although that was taken from it at {of_user[-1].began:.3f}"


def _is_taken_for_good(analysis: Analysis, last: Permission, asked: Asked) -> bool:
    healed = analysis.healed_at
    is_after = healed is not None and last.began > healed
    return (
        is_after and not last.is_granted and last.outcome == OK and last.ended is not None and last.ended < asked.began
    )


def _end(asked: Asked) -> float:
    return asked.began if asked.ended is None else asked.ended


def served_too_early(analysis: Analysis) -> Iterator[str]:
    """29: a client over its quota is served no earlier than its throttle time allows (KIP-219)."""
    for each in analysis.history.of(Throttled):
        if each.ended is not None and each.ended - each.began < each.seconds / FASTEST:
            yield (
                f"{each.user} was to wait for {each.seconds:.3f} s from {each.began:.3f} on, and was served after "
                f"{each.ended - each.began:.3f} s"
            )
