"""Concatenated JSON from a byte stream: one document after another, with or without white space between them, split
anywhere by the network.

Each character is scanned once for the end of its document (brackets and quotes), and parsed once when the document is
complete.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

DOCUMENT_CHARACTERS_MAX = 16 * 1024 * 1024
"""Limit of a record as JSON text. The limit of brokers is lower (message.max.bytes)."""
NESTING_MAX = 1000
"""Nesting that Python's parser supports."""

_BLANKS = re.compile(r"[ \t\r\n]*")
_BARE = re.compile(r'[^ \t\r\n{\["]*')
_BRACKET_OR_QUOTE = re.compile(r'[\[\]{}"]')
_QUOTE_OR_ESCAPE = re.compile(r'["\\]')


class BrokenStream(ValueError):
    """Raised at invalid JSON; nothing after it can be parsed."""


class JsonDocuments:
    """Collects text and returns complete documents. An object, array or string is complete at its closing character;
    any other document when something follows it or the stream ends."""

    def __init__(self) -> None:
        self._decoder = json.JSONDecoder()
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._broken: BrokenStream | None = None
        self._begin()

    def _begin(self) -> None:
        self._pieces: list[str] = []
        self._size = 0
        self._bare = False
        """Whether the open document is a number or a word, which only ends where something follows it."""
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def feed(self, chunk: bytes, *, last: bool = False) -> list[Any]:
        """The documents that `chunk` completes. If the stream is broken, BrokenStream is raised by the next call, after
        the documents before the error were returned; with `last` by this call."""
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
        """The position up to which the open object, array or string extends in `text`, and whether it ends there."""
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
        """Parse the collected text: one nested document, or a sequence of literals and numbers."""
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
    """The position after the match of `pattern` at `position`; `position` itself if there is none."""
    found = pattern.match(text, position)
    return position if found is None else found.end()


async def documents_of(stream: AsyncIterable[bytes]) -> AsyncIterator[list[Any]]:
    """The documents of each chunk as one list, so that records that arrive together are appended together. Raises
    BrokenStream."""
    collected = JsonDocuments()
    async for chunk in stream:
        documents = collected.feed(chunk)
        if documents:
            yield documents
    documents = collected.feed(b"", last=True)
    if documents:
        yield documents
