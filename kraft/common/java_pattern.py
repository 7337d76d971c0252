r"""Translates Java's regular expressions to Python's `re`: for patterns of topics in Spark's options, and for mapping
rules of certificates.

Syntax that Python lacks is rewritten: `\p{Lower}`, `\Q...\E`, `\z`, `\h`, `\R`, `\x{2d}`, names of groups, flags in the
middle, and nested classes. So is syntax with another meaning: in Java `\w`, `\d`, `\s` and `(?i)` are limited to ASCII,
and `.` excludes more line ends.
https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/regex/Pattern.html
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from kraft.common import character_sets as sets
from kraft.common.character_sets import CharacterSet

_SHORT: Final = {
    "d": sets.DIGITS,
    "w": sets.WORD,
    "s": sets.SPACE,
    "h": sets.HORIZONTAL_SPACE,
    "v": sets.VERTICAL_SPACE,
}
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_HEX: Final = re.compile(r"x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})")
_LOW_SURROGATE: Final = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_OCTAL: Final = re.compile(r"0([0-3]?[0-7]{1,2})")
_PROPERTY: Final = re.compile(r"[pP](?:\{([A-Za-z_]+(?:=[A-Za-z_]+)?)\}|([A-Za-z]))")
_UNICODE_NAME: Final = re.compile(r"N\{([^}]+)\}")
_LINE_END: Final = r"(?:\r\n|[\n\r\x85\u2028\u2029])"
_WORDS: Final = {
    "z": r"\Z",
    "Z": rf"(?={_LINE_END}?\Z)",
    "A": r"\A",
    "b": r"\b",
    "B": r"\B",
    "R": r"(?:\r\n|[\n-\r\x85\u2028\u2029])",
}
_NAMED_GROUP: Final = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_OTHER_GROUP: Final = re.compile(r"\(\?(?:[:=!>]|<[=!])")
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_NAMED_REFERENCE: Final = re.compile(r"k<([A-Za-z][A-Za-z0-9]*)>")
_COUNT: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_SHARED_FLAGS: Final = "imx"
"""Flags with the same meaning in Python. The flags `s`, `d` and `u` are translated by this module."""
_JAVA_FLAGS: Final = frozenset("idmsux")


def java_pattern(text: str) -> re.Pattern[str]:
    """The Python pattern. Raises ValueError for an invalid expression, or one that cannot be translated."""
    try:
        rewriter = _Rewriter(text)
        rewritten = rewriter.whole()
        return re.compile(rewritten, re.NOFLAG if rewriter.folds_unicode else re.ASCII)
    except (re.error, OverflowError, RecursionError) as problem:
        raise ValueError(f"the pattern {text!r} is not a regular expression: {problem}") from problem


class _Group:
    """An open group: the flags that apply at the position, and the Python groups that were opened in it because Python
    cannot set flags in the middle of a group."""

    __slots__ = ("flags", "scopes")

    def __init__(self, flags: frozenset[str]) -> None:
        self.flags = flags
        self.scopes: list[str] = []


class _Rewriter:
    """Translates one pattern in a single pass."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.folds_unicode = False
        """Whether letters of every alphabet match without regard to case."""
        self._groups = [_Group(frozenset())]
        self._count = 0
        """The number of capturing groups before the position."""

    def whole(self) -> str:
        parts = []
        while self.position < len(self.text):
            parts.append(self.next())
        if len(self._groups) > 1:
            raise self.problem("a group has no end")
        return "".join(parts) + ")" * len(self._groups[0].scopes)

    @property
    def flags(self) -> frozenset[str]:
        return self._groups[-1].flags

    def next(self) -> str:
        """The Python form of the Java construct at the position."""
        letter = self.text[self.position]
        if letter == "\\":
            self.position += 1
            return self.escape()
        if letter == "[":
            return _shown(self.character_class())
        if letter == "(":
            return self.group()
        if letter == "{":
            if not (count := _COUNT.match(self.text, self.position)):
                raise self.problem("a { begins no repetition")
            self.position = count.end()
            return count[0]
        self.position += 1
        if letter == ")":
            if len(self._groups) == 1:
                raise self.problem("a ) closes no group")
            return ")" * len(self._groups.pop().scopes) + ")"
        if letter == "|":
            scopes = self._groups[-1].scopes
            return ")" * len(scopes) + "|" + "".join(scopes)
        if letter == ".":
            return _shown(self.any_character())
        if letter == "$":
            return rf"(?={_LINE_END}|\Z)" if "m" in self.flags else _WORDS["Z"]
        return letter

    def any_character(self) -> CharacterSet:
        if "s" in self.flags:
            return sets.EVERYTHING
        return sets.complement(sets.of("\n") if "d" in self.flags else sets.LINE_ENDS)

    def group(self) -> str:
        if named := _NAMED_GROUP.match(self.text, self.position):
            self.open(named.end())
            self._count += 1
            return f"(?P<{named[1]}>"
        if other := _OTHER_GROUP.match(self.text, self.position):
            self.open(other.end())
            return other[0]
        if flags := _FLAGS.match(self.text, self.position):
            return self.set_flags(flags)
        if self.text.startswith("(?", self.position):
            raise self.problem("what follows (? is not known")
        self.open(self.position + 1)
        self._count += 1
        return "("

    def open(self, position: int) -> None:
        self.position = position
        self._groups.append(_Group(self.flags))

    def set_flags(self, found: re.Match[str]) -> str:
        """Translate flags. `(?i)` applies up to the end of the enclosing group, `(?i:...)` to its own group."""
        on, off = frozenset(found[1]), frozenset(found[2] or "")
        if unknown := (on | off) - _JAVA_FLAGS:
            raise self.problem(f"the flag {min(unknown)} is not known")
        self.folds_unicode |= "u" in on
        shared_on, shared_off = ("".join(flag for flag in _SHARED_FLAGS if flag in each) for each in (on - off, off))
        scope = f"(?{shared_on}{'-' if shared_off else ''}{shared_off}:"
        flags = (self.flags | on) - off
        if found[3] == ":":
            self.open(found.end())
            self._groups[-1].flags = flags
            return scope
        self.position = found.end()
        self._groups[-1].flags = flags
        self._groups[-1].scopes.append(scope)
        return scope

    def escape(self) -> str:
        """Translate an escape sequence outside of a character class."""
        letter = self.text[self.position : self.position + 1]
        if letter == "Q":
            return re.escape(self.quoted())
        if letter in _WORDS:
            return _WORDS[self.take()]
        if reference := _NAMED_REFERENCE.match(self.text, self.position):
            self.position = reference.end()
            return f"(?P={reference[1]})"
        if letter and letter in "123456789":
            return self.reference()
        return _shown(self.escaped())

    def reference(self) -> str:
        """Translate a reference to a group by number. As in Java, a further digit belongs to the number only if a group
        with the longer number exists."""
        number = self.take()
        while self.text[self.position : self.position + 1].isdecimal() and (
            int(number + self.text[self.position]) <= self._count
        ):
            number += self.take()
        return f"(?:\\{number})"

    def quoted(self) -> str:
        """The text of `Q...\\E`; without an end it goes to the end of the pattern."""
        inside, _, _ = self.text[self.position + 1 :].partition("\\E")
        self.position = min(len(self.text), self.position + len(inside) + 3)
        return inside

    def escaped(self) -> CharacterSet:
        """The characters that an escape stands for."""
        if match := _PROPERTY.match(self.text, self.position):
            self.position = match.end()
            found = sets.named(match[1] or match[2])
            if found is None:
                raise self.problem(f"the class \\{match[0]} is not known")
            return sets.complement(found) if match[0][0] == "P" else found
        if match := _HEX.match(self.text, self.position):
            self.position = match.end()
            return self.one(int(match[1] or match[2] or match[3], 16))
        if match := _OCTAL.match(self.text, self.position):
            self.position = match.end()
            return self.one(int(match[1], 8))
        if match := _UNICODE_NAME.match(self.text, self.position):
            self.position = match.end()
            try:
                return sets.of(unicodedata.lookup(match[1]))
            except KeyError:
                raise self.problem(f"no character is called {match[1]}") from None
        letter = self.take()
        if letter == "c" and self.position < len(self.text):
            return self.one(ord(self.take()) ^ 64)
        if letter.lower() in _SHORT:
            found = _SHORT[letter.lower()]
            return sets.complement(found) if letter.isupper() else found
        if letter in _CONTROL:
            return sets.of(_CONTROL[letter])
        if not letter or (letter.isascii() and letter.isalnum()):
            raise self.problem(f"\\{letter} is not known")
        return sets.of(letter)

    def one(self, code: int) -> CharacterSet:
        """The character with this code. An escaped high surrogate and the escaped low surrogate after it are one
        character."""
        if 0xD800 <= code < 0xDC00 and (low := _LOW_SURROGATE.match(self.text, self.position)):
            self.position = low.end()
            code = 0x10000 + ((code - 0xD800) << 10) + (int(low[1], 16) - 0xDC00)
        if code > sets.EVERYTHING[0][1]:
            raise self.problem(f"there is no character {code:#x}")
        return ((code, code),)

    def character_class(self) -> CharacterSet:
        """The set of a character class, from `[` to its `]`: ranges, unions, nested classes, and intersections
        (`&&`)."""
        self.position += 1
        is_negated = self.skip("^")
        sides: list[CharacterSet] = []
        found = sets.NOTHING
        is_first = True
        while is_first or not self.skip("]"):
            if self.position >= len(self.text):
                raise self.problem("a class has no end")
            if "x" in self.flags and self.text[self.position].isspace():
                self.position += 1
                continue
            if self.skip("&&"):
                sides.append(found)
                found = sets.NOTHING
            else:
                found = sets.union((*found, *self.class_item()))
            is_first = False
        for side in sides:
            found = sets.intersection(found, side)
        return sets.complement(found) if is_negated else found

    def class_item(self) -> CharacterSet:
        if self.text[self.position] == "[":
            return self.character_class()
        if self.text.startswith("\\Q", self.position):
            self.position += 1
            return sets.of(self.quoted())
        low = self.class_characters()
        following = self.text[self.position + 1 : self.position + 2]
        is_range = self.text.startswith("-", self.position) and following not in ("]", "[", "")
        if not is_range or not _is_one(low):
            return low
        self.position += 1
        high = self.class_characters()
        if not _is_one(high) or high[0][0] < low[0][0]:
            raise self.problem("a range is not from one character to a later one")
        return ((low[0][0], high[0][0]),)

    def class_characters(self) -> CharacterSet:
        return self.escaped() if self.skip("\\") else sets.of(self.take())

    def take(self) -> str:
        self.position += 1
        return self.text[self.position - 1 : self.position]

    def skip(self, text: str) -> bool:
        is_there = self.text.startswith(text, self.position)
        self.position += len(text) if is_there else 0
        return is_there

    def problem(self, what: str) -> ValueError:
        return ValueError(f"the pattern {self.text!r} is not a regular expression: {what}")


def _is_one(characters: CharacterSet) -> bool:
    return len(characters) == 1 and characters[0][0] == characters[0][1]


def _shown(characters: CharacterSet) -> str:
    """The set of characters in the syntax of `re`."""
    if not characters:
        return "(?!)"
    if _is_one(characters):
        return re.escape(chr(characters[0][0]))
    return "[" + "".join(_range(first, last) for first, last in characters) + "]"


def _range(first: int, last: int) -> str:
    begin, end = re.escape(chr(first)), re.escape(chr(last))
    return begin if first == last else f"{begin}-{end}"
