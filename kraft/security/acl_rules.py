"""The index of access control entries with which the authorizer decides: an immutable value, part of the metadata
image.

A decision reads the entries of the literal pattern of a name, of the wildcard, and of each prefix of the name whose
length occurs. Its cost depends only on the entries of the principal in these patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from immutables import Map

from kraft.security.acls import ANY_PRINCIPAL, WILDCARD, AccessControlEntry, Operation, PatternType, Permission

Pattern = tuple[int, int, str]
"""Resource type, pattern type, name."""


class Decision(NamedTuple):
    """The decision about one operation. `entry` is the entry that decided; without one `is_allowed` is False.
    `has_rules`: some entry, of any principal, names the resource."""

    is_allowed: bool
    entry: AccessControlEntry | None
    has_rules: bool


@dataclass(frozen=True, slots=True)
class AclRules:
    """Entries by pattern and principal. Equal entries with different ids count once."""

    by_pattern: Map[Pattern, Map[str, tuple[AccessControlEntry, ...]]] = field(default_factory=Map)
    by_principal: Map[tuple[int, str], Map[AccessControlEntry, int]] = field(default_factory=Map)
    """By resource type and principal: each entry and its number of ids."""
    prefix_lengths: Map[tuple[int, int], int] = field(default_factory=Map)
    """By resource type and length: the number of prefixed patterns."""

    def __contains__(self, entry: AccessControlEntry) -> bool:
        return entry in self.by_principal.get((entry.resource_type, entry.principal), ())

    def changed(self, removed: Iterable[AccessControlEntry], added: Iterable[AccessControlEntry]) -> AclRules:
        """The index without `removed`, each of which it has, and with `added`."""
        draft = _Draft(self)
        for entry in removed:
            draft.count(entry, -1)
        for entry in added:
            draft.count(entry, 1)
        return AclRules(draft.by_pattern, draft.by_principal, draft.prefix_lengths)

    def decide(self, principal: str, host: str, operation: int, kind: int, name: str) -> Decision:
        """The decision about an operation on one resource. A deny beats every allow."""
        allowed: AccessControlEntry | None = None
        has_rules = False
        for rules in self._patterns(kind, name):
            has_rules = True
            for who in (principal, ANY_PRINCIPAL):
                for entry in rules.get(who, ()):
                    if not entry.concerns(host, operation):
                        continue
                    if entry.permission_type == Permission.DENY:
                        return Decision(False, entry, True)
                    allowed = allowed or entry
        return Decision(allowed is not None, allowed, has_rules)

    def _patterns(self, kind: int, name: str) -> Iterator[Map[str, tuple[AccessControlEntry, ...]]]:
        """The entries of each pattern that names the resource."""
        found = self.by_pattern.get((kind, PatternType.LITERAL, name))
        if found is not None:
            yield found
        if name != WILDCARD:
            found = self.by_pattern.get((kind, PatternType.LITERAL, WILDCARD))
            if found is not None:
                yield found
        for of_kind, length in self.prefix_lengths:  # unordered: every pattern is looked at until one denies
            if of_kind == kind and length <= len(name):
                found = self.by_pattern.get((kind, PatternType.PREFIXED, name[:length]))
                if found is not None:
                    yield found

    def allows_some(self, principal: str, host: str, operation: int, kind: int) -> bool:
        """Whether there may be a resource of that kind on which the operation is allowed (KIP-679)."""
        entries = [
            entry
            for who in dict.fromkeys((principal, ANY_PRINCIPAL))
            for entry in self.by_principal.get((kind, who), ())
            if entry.is_about(host) and entry.operation in (Operation.ALL, operation)
        ]
        denied = {
            (entry.pattern_type, entry.resource_name) for entry in entries if entry.permission_type == Permission.DENY
        }
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(entry.permission_type == Permission.ALLOW and not _is_covered(entry, denied) for entry in entries)


def _is_covered(entry: AccessControlEntry, denied: set[tuple[int, str]]) -> bool:
    """Whether denied patterns cover every resource that the entry names."""
    name = entry.resource_name
    if entry.pattern_type == PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any(name.startswith(prefix) for pattern, prefix in denied if pattern == PatternType.PREFIXED)


class _Draft:
    """An index under change."""

    def __init__(self, base: AclRules) -> None:
        self.by_pattern = base.by_pattern
        self.by_principal = base.by_principal
        self.prefix_lengths = base.prefix_lengths

    def count(self, entry: AccessControlEntry, step: int) -> None:
        """Add `step` (1 or -1) to the number of ids of `entry`."""
        key = (entry.resource_type, entry.principal)
        counts: Map[AccessControlEntry, int] = self.by_principal.get(key, Map())
        before = counts.get(entry, 0)
        after = before + step
        counts = counts.set(entry, after) if after else counts.delete(entry)
        self.by_principal = self.by_principal.set(key, counts) if counts else self.by_principal.delete(key)
        if not before:
            self._add(entry)
        elif not after:
            self._remove(entry)

    def _add(self, entry: AccessControlEntry) -> None:
        pattern = (entry.resource_type, entry.pattern_type, entry.resource_name)
        rules = self.by_pattern.get(pattern)
        if rules is None:
            rules = Map()
            self._count_prefix(entry, 1)
        entries = (*rules.get(entry.principal, ()), entry)
        self.by_pattern = self.by_pattern.set(pattern, rules.set(entry.principal, tuple(sorted(entries))))

    def _remove(self, entry: AccessControlEntry) -> None:
        pattern = (entry.resource_type, entry.pattern_type, entry.resource_name)
        rules = self.by_pattern[pattern]
        left = tuple(each for each in rules[entry.principal] if each != entry)
        rules = rules.set(entry.principal, left) if left else rules.delete(entry.principal)
        if rules:
            self.by_pattern = self.by_pattern.set(pattern, rules)
        else:
            self.by_pattern = self.by_pattern.delete(pattern)
            self._count_prefix(entry, -1)

    def _count_prefix(self, entry: AccessControlEntry, step: int) -> None:
        if entry.pattern_type != PatternType.PREFIXED:
            return
        key = (entry.resource_type, len(entry.resource_name))
        count = self.prefix_lengths.get(key, 0) + step
        self.prefix_lengths = self.prefix_lengths.set(key, count) if count else self.prefix_lengths.delete(key)
