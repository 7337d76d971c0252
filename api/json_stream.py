"""Concatenated JSON out of a stream of bytes: documents one after another, with or without blanks or line ends between them, cut anywhere by the network."""

from __future__ import annotations

import codecs
import json
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

DOCUMENT_CHARACTERS_MAX = 16 * 1024 * 1024
"""How large one record may be as JSON text. A broker refuses sooner (message.max.bytes)."""


class BrokenStream(ValueError):
    """What follows is no JSON; nothing after it can be understood."""


class JsonDocuments:
    """Collects text and gives out whole documents. A document is only known to end when something follows it or the stream ends, unless it is an object, array
    or string."""

    def __init__(self) -> None:
        self._decoder = json.JSONDecoder()
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text = ""

    def feed(self, chunk: bytes, *, last: bool = False) -> list[Any]:
        """The documents that are complete now. Raises BrokenStream."""
        try:
            self._text += self._utf8.decode(chunk, last)
        except UnicodeDecodeError as problem:
            raise BrokenStream("the request is not UTF-8") from problem
        documents = []
        position = 0
        while True:
            position = self._skip_blanks(position)
            if position == len(self._text):
                break
            try:
                document, end = self._decoder.raw_decode(self._text, position)
            except json.JSONDecodeError as problem:
                if last:
                    raise BrokenStream(f"the request is not JSON: {problem.msg} at character {problem.pos - position} of the record") from problem
                break
            except RecursionError as problem:
                raise BrokenStream("a record is nested too deeply") from problem
            if end == len(self._text) and not last and self._text[end - 1] not in '}]"':
                break  # 12 may go on as 123.
            documents.append(document)
            position = end
        self._text = self._text[position:]
        if len(self._text) > DOCUMENT_CHARACTERS_MAX:
            raise BrokenStream(f"a record is larger than {DOCUMENT_CHARACTERS_MAX} characters")
        return documents

    def _skip_blanks(self, position: int) -> int:
        while position < len(self._text) and self._text[position] in " \t\r\n":
            position += 1
        return position


async def documents_of(stream: AsyncIterable[bytes]) -> AsyncIterator[list[Any]]:
    """The documents of each chunk together, so that records that came together are appended together. Raises BrokenStream."""
    collected = JsonDocuments()
    async for chunk in stream:
        documents = collected.feed(chunk)
        if documents:
            yield documents
    documents = collected.feed(b"", last=True)
    if documents:
        yield documents
