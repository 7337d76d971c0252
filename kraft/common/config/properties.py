"""Java's .properties format (java.util.Properties.load), so that Kafka's own files are read unchanged, with the line of
every entry."""

from __future__ import annotations

from typing import NamedTuple


class Property(NamedTuple):
    line: int
    key: str
    value: str


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> list[Property]:
    r"""Every entry in order, duplicates included. Raises ValueError with the line of an invalid \u escape, or of an
    unpaired surrogate."""
    entries = []
    for line, logical in _logical_lines(text):
        split = _separator(logical)
        rest = logical[split:].lstrip(" \t\f")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t\f")
        entries.append(Property(line, _unescape(logical[:split], line), _unescape(rest, line)))
    return entries


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments and blanks, continuations joined, each with the number of its first physical line."""
    lines: list[tuple[int, str]] = []
    pending: list[str] = []
    first = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(" \t\f")
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending.append(line[:-1])
            continue
        lines.append((first, "".join([*pending, line])))
        pending = []
    if pending:
        lines.append((first, "".join(pending)))
    return lines


def _separator(line: str) -> int:
    """The end of the key: at the first unescaped =, : or blank."""
    position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 2
        elif line[position] in "=: \t\f":
            return position
        else:
            position += 1
    return len(line)


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    out = []
    position = 0
    while position < len(text):
        character = text[position]
        if character != "\\":
            out.append(character)
            position += 1
            continue
        following = text[position + 1 : position + 2]
        if following == "u":
            digits = text[position + 2 : position + 6]
            try:
                out.append(chr(int(digits, 16)))
            except ValueError as problem:
                raise ValueError(f"line {line}: malformed \\u escape") from problem
            position += 6
        else:
            out.append(_ESCAPES.get(following, following))
            position += 2
    try:
        return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16")  # Beyond U+FFFF Java escapes in pairs.
    except UnicodeDecodeError as problem:
        raise ValueError(f"line {line}: half a pair of \\u escapes") from problem
