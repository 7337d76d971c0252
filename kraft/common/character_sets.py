"""Sets of Unicode characters as sorted ranges of code points, and the classes that Java's regular expressions name.

https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/regex/Pattern.html
"""

from __future__ import annotations

import string
import sys
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

CharacterSet = tuple[tuple[int, int], ...]
"""Ranges (first, last), both inclusive, in order and apart from one another."""

NOTHING: Final[CharacterSet] = ()
EVERYTHING: Final[CharacterSet] = ((0, sys.maxunicode),)


def of(characters: Iterable[str]) -> CharacterSet:
    return union((ord(each), ord(each)) for each in characters)


def union(ranges: Iterable[tuple[int, int]]) -> CharacterSet:
    """The set of all characters in these ranges, which may overlap."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def complement(characters: CharacterSet) -> CharacterSet:
    found, start = [], 0
    for first, last in characters:
        if first > start:
            found.append((start, first - 1))
        start = last + 1
    if start <= sys.maxunicode:
        found.append((start, sys.maxunicode))
    return tuple(found)


def intersection(left: CharacterSet, right: CharacterSet) -> CharacterSet:
    return complement(union((*complement(left), *complement(right))))


@cache
def where(belongs: Callable[[str], bool]) -> CharacterSet:
    """All characters for which `belongs` holds. The first call for a property takes a tenth of a second."""
    found: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if belongs(chr(code)):
            if found and found[-1][1] == code - 1:
                found[-1] = (found[-1][0], code)
            else:
                found.append((code, code))
    return tuple(found)


@cache
def category(prefix: str) -> CharacterSet:
    """The characters whose general category has this prefix: `L`, `Lu`."""
    return where(lambda character: unicodedata.category(character).startswith(prefix))


DIGITS: Final = of(string.digits)
LETTERS: Final = of(string.ascii_letters)
WORD: Final = union((*LETTERS, *DIGITS, (ord("_"), ord("_"))))
SPACE: Final = of(" \t\n\x0b\f\r")
HORIZONTAL_SPACE: Final = union((*of(" \t\xa0\u1680\u180e\u202f\u205f\u3000"), (0x2000, 0x200A)))
VERTICAL_SPACE: Final = of("\n\x0b\f\r\x85\u2028\u2029")
LINE_ENDS: Final = of("\n\r\x85\u2028\u2029")
_PUNCTUATION: Final = of(string.punctuation)
_PRINTED: Final = ((0x21, 0x7E),)

_POSIX: Final = {
    "Lower": of(string.ascii_lowercase),
    "Upper": of(string.ascii_uppercase),
    "ASCII": ((0, 127),),
    "Alpha": LETTERS,
    "Digit": DIGITS,
    "Alnum": union((*LETTERS, *DIGITS)),
    "Punct": _PUNCTUATION,
    "Graph": _PRINTED,
    "Print": union((*_PRINTED, (0x20, 0x20))),
    "Blank": of(" \t"),
    "Cntrl": ((0, 31), (127, 127)),
    "XDigit": of(string.hexdigits),
    "Space": SPACE,
}
"""ASCII alone, unlike the properties whose names begin with `Is`."""

_CATEGORIES: Final = frozenset(
    (
        *("C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "LC", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn"),
        *("N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So"),
        *("Z", "Zl", "Zp", "Zs"),
    )
)

_JAVA_WHITESPACE_EXCEPT: Final = "\xa0\u2007\u202f"


def _is_java_whitespace(character: str) -> bool:
    if character in _JAVA_WHITESPACE_EXCEPT:
        return False
    return character in "\t\n\x0b\f\r\x1c\x1d\x1e\x1f" or unicodedata.category(character) in ("Zs", "Zl", "Zp")


def _is_alphabetic(character: str) -> bool:
    return unicodedata.category(character) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl") or character in "\u0345"


def _is_white_space(character: str) -> bool:
    return character in "\t\n\x0b\f\r\x85" or unicodedata.category(character) in ("Zs", "Zl", "Zp")


def _is_latin(character: str) -> bool:
    name = unicodedata.name(character, "")
    return name.startswith(("LATIN ", "FULLWIDTH LATIN ", "MODIFIER LETTER SMALL ", "MODIFIER LETTER CAPITAL ")) or (
        character in "\xaa\xba\u212a\u212b"
    )


_PROPERTIES: Final[dict[str, Callable[[], CharacterSet]]] = {
    "alphabetic": lambda: where(_is_alphabetic),
    "letter": lambda: category("L"),
    "digit": lambda: category("Nd"),
    "lowercase": lambda: where(str.islower),
    "uppercase": lambda: where(str.isupper),
    "titlecase": lambda: category("Lt"),
    "punctuation": lambda: category("P"),
    "control": lambda: category("Cc"),
    "white_space": lambda: where(_is_white_space),
    "whitespace": lambda: where(_is_white_space),
    "latin": lambda: where(_is_latin),
}
"""`\\p{Is...}`, by name in lower case. Of the scripts only Latin."""

_JAVA: Final[dict[str, Callable[[], CharacterSet]]] = {
    "javaLowerCase": _PROPERTIES["lowercase"],
    "javaUpperCase": _PROPERTIES["uppercase"],
    "javaTitleCase": _PROPERTIES["titlecase"],
    "javaAlphabetic": _PROPERTIES["alphabetic"],
    "javaLetter": _PROPERTIES["letter"],
    "javaDigit": _PROPERTIES["digit"],
    "javaLetterOrDigit": lambda: union((*category("L"), *category("Nd"))),
    "javaWhitespace": lambda: where(_is_java_whitespace),
}


def named(name: str) -> CharacterSet | None:
    r"""The characters of Java's `\p{name}`; None for an unknown name."""
    key, assigned, value = name.partition("=")
    if assigned:
        kind = key.lower()
        if kind in ("general_category", "gc"):
            return _of_category(value)
        if kind in ("script", "sc"):
            return named(f"Is{value}")
        return named(f"In{value}") if kind in ("block", "blk") else None
    if name in _POSIX:
        return _POSIX[name]
    if name in _JAVA:
        return _JAVA[name]()
    if name.lower().replace("_", "").replace(" ", "") == "inbasiclatin":
        return ((0, 127),)
    if name.startswith("Is"):
        found = _PROPERTIES.get(name[2:].lower())
        return _of_category(name[2:]) if found is None else found()
    return _of_category(name)


def _of_category(name: str) -> CharacterSet | None:
    if name not in _CATEGORIES:
        return None
    if name == "LC":
        return union((*category("Lu"), *category("Ll"), *category("Lt")))
    return category(name)
