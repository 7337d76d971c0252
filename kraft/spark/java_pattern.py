"""Java's regular expressions over names of topics, as `subscribePattern` takes them, for Python's `re`.

What Java has and Python has not is rewritten: `\\p{Lower}`, `\\Q...\\E`, `\\z`, `\\h`, `\\R`, `\\x{2d}`, groups with
names, and classes within classes. Names of topics are ASCII, so a class becomes the list of its ASCII characters.
https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/regex/Pattern.html
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Final

ASCII: Final = frozenset(map(chr, range(128)))
_LETTERS: Final = frozenset(string.ascii_letters)
_DIGITS: Final = frozenset(string.digits)
_PUNCTUATION: Final = frozenset(string.punctuation)
_SPACE: Final = frozenset(" \t\n\x0b\f\r")
_NONE: Final[frozenset[str]] = frozenset()
_UPPER: Final = frozenset(string.ascii_uppercase)
_LOWER: Final = frozenset(string.ascii_lowercase)
_SYMBOLS: Final = frozenset("$+<=>^`|~")
_CLASSES: Final = {
    **dict.fromkeys(("lower", "ll", "lowercase", "javalowercase"), _LOWER),
    **dict.fromkeys(("upper", "lu", "uppercase", "javauppercase"), _UPPER),
    **dict.fromkeys(("alpha", "l", "alphabetic", "letter", "javaletter", "latin", "lc"), _LETTERS),
    **dict.fromkeys(("digit", "n", "nd", "javadigit"), _DIGITS),
    **dict.fromkeys(("alnum", "javaletterordigit"), _LETTERS | _DIGITS),
    **dict.fromkeys(("ascii", "basiclatin"), ASCII),
    "punct": _PUNCTUATION,
    **dict.fromkeys(("p", "punctuation"), _PUNCTUATION - _SYMBOLS),
    "s": _SYMBOLS,
    "pc": frozenset("_"),
    "pd": frozenset("-"),
    "graph": _LETTERS | _DIGITS | _PUNCTUATION,
    "print": _LETTERS | _DIGITS | _PUNCTUATION | {" "},
    "blank": frozenset(" \t"),
    "xdigit": frozenset(string.hexdigits),
    **dict.fromkeys(("space", "whitespace", "white_space", "javawhitespace"), _SPACE),
    **dict.fromkeys(("cntrl", "cc", "control"), frozenset(map(chr, (*range(32), 127)))),
}
"""By their names in lower case, without `Is`, `In`, or a key such as `general_category=`."""
_SHORT: Final = {
    "d": _DIGITS,
    "w": _LETTERS | _DIGITS | {"_"},
    "s": _SPACE,
    "h": frozenset(" \t"),
    "v": frozenset("\n\x0b\f\r"),
}
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_HEX: Final = re.compile(r"x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})")
_PROPERTY: Final = re.compile(r"[pP](?:\{(\^?)(?:[A-Za-z_]+=)?([A-Za-z_]+)\}|([A-Z]))")
_WORDS: Final = {"z": r"\Z", "Z": r"\Z", "A": r"\A", "b": r"\b", "B": r"\B", "R": r"(?:\r\n|[\n-\r])"}
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")
_NAMED_REFERENCE: Final = re.compile(r"k<([A-Za-z][A-Za-z0-9]*)>")


def java_pattern(text: str) -> re.Pattern[str]:
    """Raises ValueError for what is no regular expression of Java, or has no counterpart."""
    try:
        return re.compile(_Rewriter(text).whole(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as problem:
        raise ValueError(f"the pattern {text!r} is not a regular expression: {problem}") from problem


class _Rewriter:
    """Goes through a pattern once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def whole(self) -> str:
        parts = []
        while self.position < len(self.text):
            if self.text[self.position] == "\\":
                self.position += 1
                parts.append(self.escape())
            elif self.text[self.position] == "[":
                parts.append(_shown(self.character_class()))
            elif group := _NAMED_GROUP.match(self.text, self.position):
                self.position = group.end()
                parts.append("(?P<")
            else:
                parts.append(self.take())
        return "".join(parts)

    def escape(self) -> str:
        """What stands behind a backslash, outside of a class."""
        if self.text.startswith("Q", self.position):
            return re.escape(self.quoted())
        if self.text[self.position : self.position + 1] in _WORDS:
            return _WORDS[self.take()]
        if reference := _NAMED_REFERENCE.match(self.text, self.position):
            self.position = reference.end()
            return f"(?P={reference[1]})"
        if self.text[self.position : self.position + 1] in set("123456789"):
            return f"\\{self.take()}"
        return _shown(self.escaped())

    def quoted(self) -> str:
        """The text of `Q...\\E`; without an end it goes to the end of the pattern."""
        inside, _, _ = self.text[self.position + 1 :].partition("\\E")
        self.position = min(len(self.text), self.position + len(inside) + 3)
        return inside

    def escaped(self) -> frozenset[str]:
        """The characters that an escape stands for."""
        if match := _PROPERTY.match(self.text, self.position):
            self.position = match.end()
            name = (match[2] or match[3]).lower()
            found = _CLASSES.get(name, _CLASSES.get(re.sub("^(?:is|in)", "", name)))
            if found is None:
                raise self.problem(f"the class {match[0]} is not known")
            return ASCII - found if (match[0][0] == "P") != bool(match[1]) else found
        if match := _HEX.match(self.text, self.position):
            self.position = match.end()
            return frozenset(chr(int(match[1] or match[2] or match[3], 16)))
        letter = self.take()
        if letter.lower() in _SHORT:
            found = _SHORT[letter.lower()]
            return ASCII - found if letter.isupper() else found
        if letter in _CONTROL:
            return frozenset(_CONTROL[letter])
        if letter.isalnum() or not letter:
            raise self.problem(f"\\{letter} is not known")
        return frozenset(letter)

    def character_class(self) -> frozenset[str]:
        """From `[` to its `]`: ranges, unions, classes within, and intersections (`&&`)."""
        self.position += 1
        is_negated = self.skip("^")
        sides: list[frozenset[str]] = []
        found = _NONE
        while not self.skip("]"):
            if self.position >= len(self.text):
                raise self.problem("a class has no end")
            if self.skip("&&"):
                sides.append(found)
                found = _NONE
            else:
                found |= self.class_item()
        for side in sides:
            found &= side
        return ASCII - found if is_negated else found

    def class_item(self) -> frozenset[str]:
        if self.text[self.position] == "[":
            return self.character_class()
        if self.text.startswith("\\Q", self.position):
            self.position += 1
            return frozenset(self.quoted())
        low = self.class_characters()
        is_range = self.text.startswith("-", self.position) and self.text[
            self.position + 1 : self.position + 2
        ] not in (
            "]",
            "[",
            "",
        )
        if not is_range or len(low) != 1:
            return low
        self.position += 1
        high = self.class_characters()
        if len(high) != 1 or min(high) < min(low):
            raise self.problem("a range is not from one character to a later one")
        return frozenset(map(chr, range(ord(min(low)), ord(min(high)) + 1)))

    def class_characters(self) -> frozenset[str]:
        return self.escaped() if self.skip("\\") else frozenset(self.take())

    def take(self) -> str:
        self.position += 1
        return self.text[self.position - 1 : self.position]

    def skip(self, text: str) -> bool:
        is_there = self.text.startswith(text, self.position)
        self.position += len(text) if is_there else 0
        return is_there

    def problem(self, what: str) -> ValueError:
        return ValueError(f"the pattern {self.text!r} is not a regular expression: {what}")


def _shown(characters: frozenset[str]) -> str:
    """The set of characters in the syntax of `re`."""
    if not characters:
        return "(?!)"
    shown: Callable[[str], str] = re.escape
    inside = "".join(map(shown, sorted(characters)))
    return inside if len(characters) == 1 else f"[{inside}]"
