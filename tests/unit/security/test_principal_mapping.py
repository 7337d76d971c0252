"""Rules for the names in certificates give the principal that Kafka's SslPrincipalMapper gives, or are refused at the
start of the node: never another principal."""

from __future__ import annotations

import json
import re

import pytest

from kraft.security.principal_mapping import PrincipalMapping
from tests.vectors.principals import RECORDED, pairs

ROWS: list[tuple[str, str, str | None]] = [tuple(row) for row in json.loads(RECORDED.read_text())]

DIFFERENCES = {
    r"\A\Z": "Without rules the name is taken as it is. Kafka refuses everybody.",
    r"\\b": "A boundary of words is about ASCII, as since Java 19. The answers were recorded with Java 17.",
    r"\$2|\$9": "A number that no group has stays as it is written. Kafka throws at the second one.",
}
"""By pattern of the rules: what differs on purpose."""
REFUSED = r"(?:\A|:)RULE:\{|[*+?]\{|\)\{"
"""Repetitions of nothing or of repetitions, which Java takes and Python does not."""


def ours(rules: str, name: str) -> str | None:
    try:
        return PrincipalMapping(rules).name(name)
    except ValueError:
        return None


def test_every_recorded_name_equals_kafkas_or_is_a_declared_difference() -> None:
    unexplained = []
    explained = set()
    for rules, name, kafkas in ROWS:
        found = ours(rules, name)
        if found == kafkas:
            continue
        reason = next((pattern for pattern in DIFFERENCES if re.search(pattern, rules)), None)
        if reason is None and not (found is None and re.search(REFUSED, rules)):
            unexplained.append((rules, name, kafkas, found))
        explained.add(reason)
    assert unexplained == []
    assert {*DIFFERENCES} <= explained


def test_every_tested_pair_was_recorded() -> None:
    assert pairs() == [(rules, name) for rules, name, _ in ROWS]
    assert sum(answer is not None for _, _, answer in ROWS) > 700


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("RULE:^CN=(.*)$/${name}/", "names the group name, which the pattern does not have"),
        ("RULE:^CN=.*$/$1/", "names no group of the pattern"),
        ("RULE:^CN=(.*)$/$x/", "names no group of the pattern"),
        (r"RULE:\p{Nonsense}/x/", r"the class \\p{Nonsense} is not known"),
        ("RULE:a{/x/", "a { begins no repetition"),
        ("RULE:(?<=a+)b/x/", "is not a regular expression"),
        ("RULE:(?U)a/x/", "the flag U is not known"),
    ],
)
def test_an_inapplicable_rule_is_rejected_with_the_reason(rules: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        PrincipalMapping(rules)
