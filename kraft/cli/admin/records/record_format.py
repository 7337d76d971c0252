"""The output format of `kraft consume`: a format string as in kcat, or JSON, one object a line."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import typer

from kraft.protocol.records.record import HEADER_KEY_ERRORS
from kraft.protocol.records.record_batch import LOG_APPEND_TIME
from kraft.rpc_client.consumer import ConsumedRecord

Write = Callable[[ConsumedRecord], bytes]

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}

HELP = (
    "%t topic, %p partition, %o offset, %T timestamp (ms), %k key, %s value, %K and %S their bytes, %h headers, "
    "%%; \\n and \\t; or json."
)


def parse_format(text: str) -> Write:
    """The writer for `json` or a format string: %t topic, %p partition, %o offset, %k key, %s value, %K %S their
    lengths (-1 null), %T timestamp, %h headers, %%.

    Raises typer.BadParameter (exit 2).
    """
    if text == "json":
        return write_json
    parts: list[Write] = []
    position = 0
    while position < len(text):
        pair = text[position : position + 2]
        if pair[0] not in "%\\":
            parts.append(_constant(pair[0].encode()))
            position += 1
            continue
        part = (
            _VERBS.get(pair[1:]) if pair[0] == "%" else _constant(_ESCAPES[pair[1]]) if pair[1:] in _ESCAPES else None
        )
        if part is None:
            known = ", ".join("%" + verb for verb in _VERBS)
            raise typer.BadParameter(
                f"{pair!r} is not a known format; known are {known} and \\n \\t \\r \\0 \\\\", param_hint="--format"
            )
        parts.append(part)
        position += 2
    return lambda record: b"".join([part(record) for part in parts])


def _constant(data: bytes) -> Write:
    return lambda _: data


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _name(text: str) -> bytes:
    """A header's name in the producer's bytes, UTF-8 or not."""
    return text.encode("utf-8", HEADER_KEY_ERRORS)


_VERBS: dict[str, Write] = {
    "t": lambda consumed: consumed.partition.topic.encode(),
    "p": lambda consumed: b"%d" % consumed.partition.partition,
    "o": lambda consumed: b"%d" % consumed.record.offset,
    "T": lambda consumed: b"%d" % consumed.record.timestamp,
    "k": lambda consumed: bytes(consumed.record.key or b""),
    "s": lambda consumed: bytes(consumed.record.value or b""),
    "K": lambda consumed: _length(consumed.record.key),
    "S": lambda consumed: _length(consumed.record.value),
    "h": lambda consumed: b",".join(
        _name(name) + b"=" + bytes(value or b"") for name, value in consumed.record.headers
    ),
    "%": _constant(b"%"),
}


def write_json(consumed: ConsumedRecord) -> bytes:
    """One line of JSON. Bytes that are not UTF-8 are written as base64; the field beside them gives the encoding."""
    return json.dumps(record_document(consumed), ensure_ascii=False).encode() + b"\n"


def record_document(consumed: ConsumedRecord) -> dict[str, Any]:
    record = consumed.record
    key, key_encoding = _text(record.key)
    value, value_encoding = _text(record.value)
    headers = []
    for written, content in record.headers:
        name, name_encoding = _text(_name(written))
        shown, encoding = _text(content)
        headers.append({"name": name, "name_encoding": name_encoding, "value": shown, "encoding": encoding})
    return {
        "topic": consumed.partition.topic,
        "partition": consumed.partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": "log_append_time" if consumed.timestamp_type == LOG_APPEND_TIME else "create_time",
        "key": key,
        "key_encoding": key_encoding,
        "value": value,
        "value_encoding": value_encoding,
        "headers": headers,
    }


def _text(data: bytes | memoryview | None) -> tuple[str | None, str | None]:
    """The bytes as text, and their encoding: utf-8, base64, or None for null."""
    if data is None:
        return None, None
    try:
        return bytes(data).decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"
