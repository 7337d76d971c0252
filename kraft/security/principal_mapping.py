"""`ssl.principal.mapping.rules`: maps the name in a TLS client's certificate to its principal, as Kafka's
SslPrincipalMapper.

Patterns and replacements have Java's semantics. A rule whose pattern matches the whole name replaces every occurrence
of the pattern, so `RULE:.*/x/` gives `xx`, since it also matches the empty text at the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kraft.common.ids import ANONYMOUS
from kraft.common.java_pattern import java_pattern
from kraft.security.certificate_names import distinguished_name

PRINCIPAL_TYPE: Final = "User"
DEFAULT_RULE: Final = "DEFAULT"

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)|)"
    r"\s*(?:[,\n]|\Z)"
)
_NAME: Final = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")
_DIGITS: Final = "0123456789"


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """The pattern that the whole name must match. None for DEFAULT, which leaves the name unchanged."""
    replacement: tuple[str | int, ...] = ()
    """The parts of the replacement: literal texts, and numbers of captured groups."""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        replaced = self._replaced(self.pattern, name)
        return replaced.lower() if self.case == "L" else replaced.upper() if self.case == "U" else replaced

    def _replaced(self, pattern: re.Pattern[str], name: str) -> str:
        """The name with every occurrence replaced. After an empty occurrence Java continues at the next character;
        Python's `sub` would look for a longer one at the same position."""
        parts, copied, position = [], 0, 0
        while position <= len(name) and (match := pattern.search(name, position)) is not None:
            parts += [name[copied : match.start()], self._expand(match)]
            copied = match.end()
            position = copied + (match.start() == copied)
        return "".join(parts) + name[copied:]

    def _expand(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.replacement)


class PrincipalMapping:
    """The first rule whose pattern matches the whole name gives the principal's name. Empty rules are ignored."""

    __slots__ = ("_rules",)

    def __init__(self, text: str) -> None:
        """Parse the rules. Raises ValueError with a message."""
        rules, position = [], 0
        text = text.strip() or DEFAULT_RULE
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None:
                raise ValueError(f"{text[position:]!r} is neither DEFAULT nor RULE:pattern/replacement/[LU]")
            position = match.end()
            if match["default"]:
                rules.append(_Rule(None))
            elif match["pattern"] is not None:
                pattern = java_pattern(match["pattern"])
                rules.append(_Rule(pattern, _parse_replacement(match["replacement"], pattern), match["case"]))
        self._rules = tuple(rules)

    def principal(self, certificate: bytes | None) -> str:
        """`User:name` of a client with that certificate (DER), ANONYMOUS without one. Raises ValueError if no rule
        matches its name."""
        if certificate is None:
            return ANONYMOUS
        return f"{PRINCIPAL_TYPE}:{self.name(distinguished_name(certificate))}"

    def name(self, distinguished: str) -> str:
        """The principal's name. Raises ValueError if no rule matches."""
        for rule in self._rules:
            mapped = rule.apply(distinguished)
            if mapped is not None:
                return mapped
        raise ValueError(f"no rule of ssl.principal.mapping.rules matches the certificate's name {distinguished}")


def _parse_replacement(text: str, pattern: re.Pattern[str]) -> tuple[str | int, ...]:
    r"""Parse Java's `$1`, `${name}` and `\x`. As in Kafka, the number of a group that does not exist stays as it is if
    the pattern has groups. Raises ValueError."""
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        letter = text[position]
        position += 1
        if letter == "\\":
            if position == len(text):
                raise ValueError(f"the replacement {text!r} ends with a backslash")
            parts.append(text[position])
            position += 1
        elif letter != "$":
            parts.append(letter)
        elif named := _NAME.match(text, position):
            if named[1] not in pattern.groupindex:
                raise ValueError(
                    f"the replacement {text!r} names the group {named[1]}, which the pattern does not have"
                )
            parts.append(pattern.groupindex[named[1]])
            position = named.end()
        else:
            digits = _group_digits(text, position, pattern.groups)
            if digits:
                parts.append(int(digits))
                position += len(digits)
            elif pattern.groups and text[position : position + 1] in tuple(_DIGITS):
                parts.append("$")
            else:
                raise ValueError(
                    f"in the replacement {text!r} a $ names no group of the pattern; \\$ is the sign itself"
                )
    return tuple(parts)


def _group_digits(text: str, position: int, groups: int) -> str:
    """The longest run of digits that is the number of a group, or none."""
    digits = ""
    while text[position : position + 1] in tuple(_DIGITS) and int(digits + text[position]) <= groups:
        digits += text[position]
        position += 1
    return digits
