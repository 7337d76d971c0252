"""Concatenated JSON out of a stream of bytes: documents one after another, with or without blanks or line ends
between them, cut anywhere by the network.

Each character is looked at once to find where a document ends (brackets, and what is quoted), and parsed once when
it has.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

DOCUMENT_CHARACTERS_MAX = 16 * 1024 * 1024
"""How large one record may be as JSON text. A broker refuses sooner (message.max.bytes)."""
NESTING_MAX = 1000
"""Where Python's parser gives up at the latest."""

_BLANKS = re.compile(r"[ \t\r\n]*")
_BARE = re.compile(r'[^ \t\r\n{\["]*')
_BRACKET_OR_QUOTE = re.compile(r'[\[\]{}"]')
_QUOTE_OR_ESCAPE = re.compile(r'["\\]')


class BrokenStream(ValueError):
    """What follows is no JSON; nothing after it can be understood."""


class JsonDocuments:
    """Collects text and gives out whole documents. A document is only known to end when something follows it or the
    stream ends, unless it is an object, array or string."""

    def __init__(self) -> None:
        self._decoder = json.JSONDecoder()
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._broken: BrokenStream | None = None
        self._begin()

    def _begin(self) -> None:
        self._pieces: list[str] = []
        self._size = 0
        self._bare = False
        """Whether it is numbers and words, which nothing ends but what follows."""
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def feed(self, chunk: bytes, *, last: bool = False) -> list[Any]:
        """The documents that are complete now. Raises BrokenStream, after those before the fault were given out
        unless this is the last chunk."""
        if self._broken is not None:
            raise self._broken
        documents: list[Any] = []
        try:
            self._take(self._text_of(chunk, last), documents)
            if last and self._pieces:
                documents += self._parsed()
        except BrokenStream as problem:
            if last or not documents:
                raise
            self._broken = problem
        return documents

    def _text_of(self, chunk: bytes, last: bool) -> str:
        try:
            return self._utf8.decode(chunk, last)
        except UnicodeDecodeError as problem:
            raise BrokenStream("the request is not UTF-8") from problem

    def _take(self, text: str, documents: list[Any]) -> None:
        position = 0
        while position < len(text):
            if not self._pieces:
                position = _after(_BLANKS, text, position)
                if position == len(text):
                    return
                self._bare = text[position] not in '{["'
            end, ended = self._end_of_bare(text, position) if self._bare else self._end_of_nested(text, position)
            self._pieces.append(text[position:end])
            self._size += end - position
            if self._size > DOCUMENT_CHARACTERS_MAX:
                raise BrokenStream(f"a record is larger than {DOCUMENT_CHARACTERS_MAX} characters")
            if ended:
                documents += self._parsed()
            position = end

    def _end_of_bare(self, text: str, position: int) -> tuple[int, bool]:
        end = _after(_BARE, text, position)
        return end, end < len(text)

    def _end_of_nested(self, text: str, position: int) -> tuple[int, bool]:
        """How far the open object, array or string goes in `text`, and whether that is its end."""
        while position < len(text):
            if self._escaped:
                self._escaped = False
                position += 1
                continue
            found = (_QUOTE_OR_ESCAPE if self._quoted else _BRACKET_OR_QUOTE).search(text, position)
            if found is None:
                break
            position = found.end()
            self._meet(found[0])
            if not self._depth and not self._quoted:
                return position, True
        return len(text), False

    def _meet(self, mark: str) -> None:
        if mark == "\\":
            self._escaped = True
        elif mark == '"':
            self._quoted = not self._quoted
        elif mark in "[{":
            self._depth += 1
            if self._depth > NESTING_MAX:
                raise BrokenStream("a record is nested too deeply")
        else:
            self._depth -= 1

    def _parsed(self) -> list[Any]:
        """What was collected: one document, or words and numbers that follow one another."""
        text, documents, position = "".join(self._pieces), [], 0
        self._begin()
        try:
            while position < len(text):
                document, position = self._decoder.raw_decode(text, position)
                documents.append(document)
        except json.JSONDecodeError as problem:
            raise BrokenStream(
                f"the request is not JSON: {problem.msg} at character {problem.pos - position} of the record"
            ) from problem
        except RecursionError as problem:
            raise BrokenStream("a record is nested too deeply") from problem
        except ValueError as problem:
            raise BrokenStream(f"the request is not JSON that can be understood: {problem}") from problem
        return documents


def _after(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Behind what `pattern` matches at `position`, if only nothing."""
    found = pattern.match(text, position)
    return position if found is None else found.end()


async def documents_of(stream: AsyncIterable[bytes]) -> AsyncIterator[list[Any]]:
    """The documents of each chunk together, so that records that came together are appended together. Raises
    BrokenStream."""
    collected = JsonDocuments()
    async for chunk in stream:
        documents = collected.feed(chunk)
        if documents:
            yield documents
    documents = collected.feed(b"", last=True)
    if documents:
        yield documents
