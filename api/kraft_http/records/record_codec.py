"""Converts records between JSON and bytes, and computes the partition of a key."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from kraft.protocol.records.record import HEADER_KEY_ERRORS, Record
from kraft_http.models.records import (
    ConsumedData,
    ConsumedHeader,
    ConsumedRecord,
    DataType,
    ProducedData,
    ProduceRecord,
    RecordData,
)
from kraft_http.requests.errors import ApiProblem
from kraft_http.requests.outcomes import Outcome

_TIMESTAMP_MS_MAX = 253_402_300_799_999
"""The last millisecond that RFC 3339 can write."""


NESTED_MAX: Final = 100
"""Limit of nested lists and objects. The serializer of responses supports 255."""


def encode_data(data: RecordData | None) -> bytes | None:
    """The bytes of a key or value. Raises ApiProblem."""
    if data is None or (data.data is None and data.type is not DataType.JSON):
        return None
    if data.type is DataType.JSON:
        return None if data.data is None else _utf8(_as_text(data.data))
    if not isinstance(data.data, str):
        raise ApiProblem(400, f"{data.type} data must be a JSON string.")
    if data.type is DataType.STRING:
        return _utf8(data.data)
    return decode_base64(data.data)


def _as_text(value: Any) -> str:
    if is_nested_too_deeply(value):
        raise ApiProblem(400, f"The data is nested too deeply: more than {NESTED_MAX} levels.")
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError as problem:
        raise ApiProblem(400, "The data holds NaN or an infinite number, which are not JSON.") from problem


def is_nested_too_deeply(value: Any) -> bool:
    """Whether a JSON document has more than NESTED_MAX levels. The interpreter's own limit differs between releases."""
    level = [value]
    for _ in range(NESTED_MAX):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as problem:
        raise ApiProblem(400, "The data holds half a surrogate pair, which UTF-8 cannot encode.") from problem


def decode_base64(text: str) -> bytes:
    """The decoded bytes. Raises ApiProblem."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise ApiProblem(400, f"Bad Request: data={text[:40]} is not a base64 string.") from problem


def to_record(body: ProduceRecord, now_ms: int) -> Record:
    """The record to append, without an offset yet. Raises ApiProblem."""
    headers = tuple(
        (_header_name(header.name), None if header.value is None else decode_base64(header.value))
        for header in body.headers
    )
    timestamp = now_ms if body.timestamp is None else _timestamp_ms(body.timestamp)
    return Record(0, timestamp, encode_data(body.key), encode_data(body.value), headers)


def _header_name(name: str) -> str:
    _utf8(name)
    return name


def _timestamp_ms(moment: datetime) -> int:
    timestamp = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    if timestamp < 0:
        raise ApiProblem(400, "timestamp lies before 1970.")
    return timestamp


def produced(data: RecordData | None, stored: bytes | None) -> ProducedData | None:
    return None if data is None or stored is None else ProducedData(type=data.type, size=len(stored))


def format_timestamp(timestamp_ms: int) -> str:
    """The time in RFC 3339, UTC. Times outside its range become the nearest one that it has."""
    bounded = min(max(timestamp_ms, 0), _TIMESTAMP_MS_MAX)
    moment = datetime.fromtimestamp(bounded // 1000, UTC).replace(microsecond=bounded % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def show_record(
    record: Record, partition_id: int, data_format: DataType | None, transaction: Outcome | None
) -> ConsumedRecord:
    """The record for a response. With `data_format` None, data is shown as JSON if it is JSON, else as text if it is
    UTF-8, else as base64."""
    headers = [_show_header(name, value) for name, value in record.headers]
    return ConsumedRecord(
        partition_id=partition_id,
        offset=record.offset,
        timestamp=format_timestamp(record.timestamp),
        key=show_data(record.key, data_format),
        value=show_data(record.value, data_format),
        headers=headers,
        transaction=transaction,
    )


def _show_header(name: str, value: bytes | None) -> ConsumedHeader:
    shown = None if value is None else base64.b64encode(value).decode()
    try:
        name.encode()
    except UnicodeEncodeError:
        return ConsumedHeader(
            name=base64.b64encode(name.encode("utf-8", HEADER_KEY_ERRORS)).decode(),
            name_type=DataType.BINARY,
            value=shown,
        )
    return ConsumedHeader(name=name, name_type=DataType.STRING, value=shown)


def show_data(data: bytes | None, data_format: DataType | None) -> ConsumedData | None:
    if data is None:
        return None
    if data_format in (None, DataType.JSON):
        found, value = _as_json(data)
        if found:
            return ConsumedData(type=DataType.JSON, data=value)
    if data_format is not DataType.BINARY:
        try:
            return ConsumedData(type=DataType.STRING, data=data.decode())
        except UnicodeDecodeError:
            pass  # Shown as base64, which anything can be.
    return ConsumedData(type=DataType.BINARY, data=base64.b64encode(data).decode())


def _as_json(data: bytes) -> tuple[bool, Any]:
    """Whether the bytes are a JSON document that can be written back without loss, and the document."""
    try:
        value = json.loads(data, parse_constant=_refuse_constant, parse_float=_exact, object_pairs_hook=_distinct)
        if is_nested_too_deeply(value):
            return False, None
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False, None
    return True, value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _exact(text: str) -> float:
    value = float(text)
    try:
        is_kept = Decimal(text) == Decimal(repr(value))
    except InvalidOperation:  # An exponent beyond any that a Decimal has.
        is_kept = False
    if not is_kept:
        raise ValueError(f"{text} has more digits than a number of JSON keeps")
    return value


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object has a member twice")
    return members
