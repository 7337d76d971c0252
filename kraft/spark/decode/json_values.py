"""Convert one JSON text to a value of a type: exact, and slow. `json_decoder` uses it for texts that Arrow's reader
cannot parse. Pure."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

DIGITS_MAX = 100
"""The precision for rounding decimals, larger than that of any type."""
SHOWN_MAX = 60
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
"""The start of dates and times: the only supported form of ISO 8601."""
NOT_FINITE = {
    "NaN": "nan",
    "+INF": "inf",
    "Infinity": "inf",
    "+Infinity": "inf",
    "-INF": "-inf",
    "-Infinity": "-inf",
}
"""Names of non-finite floats, quoted or unquoted, as from_json allows."""


class Number(str):
    """A JSON number, kept as its text."""

    __slots__ = ()


class BadValue(ValueError):
    """Raised when the text does not match the schema."""


def value_of(text: bytes, kind: pa.StructType) -> dict[str, Any] | None:
    """Parse a JSON object as a value of the struct. Missing fields are None, unknown fields are ignored, and `null` is
    None. Raises BadValue."""
    try:
        found = json.loads(text.decode("utf-8"), parse_int=Number, parse_float=Number, parse_constant=Number)
    except UnicodeDecodeError:
        raise BadValue("it is not UTF-8") from None
    except (ValueError, RecursionError) as problem:
        raise BadValue(f"it is not JSON: {problem}") from None
    return None if found is None else fields_of(found, kind, "")


def fields_of(found: Any, kind: pa.StructType, path: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise unfit(found, "an object", path)
    return {
        field.name: fitted(found.get(field.name), field.type, f"{path}.{field.name}" if path else field.name)
        for field in kind
    }


def fitted(found: Any, kind: pa.DataType, path: str) -> Any:
    """Convert a parsed value to Python's value for the Arrow type. Raises BadValue."""
    if found is None:
        return None
    if pa.types.is_struct(kind):
        return fields_of(found, kind, path)
    if pa.types.is_map(kind):
        if not isinstance(found, dict):
            raise unfit(found, "an object", path)
        return [(encodable(key, path), fitted(each, kind.item_type, f"{path}.{key}")) for key, each in found.items()]
    if pa.types.is_list(kind):
        if not isinstance(found, list):
            raise unfit(found, "an array", path)
        return [fitted(each, kind.value_type, f"{path}[{index}]") for index, each in enumerate(found)]
    if pa.types.is_string(kind):
        return encodable(found if type(found) is str else written(found), path)
    if pa.types.is_boolean(kind):
        if not isinstance(found, bool):
            raise unfit(found, "true or false", path)
        return found
    if isinstance(found, (dict, list, bool)):
        raise unfit(found, str(kind), path)
    try:
        return scalar(found, kind)
    except (ValueError, InvalidOperation, OverflowError, OSError):
        raise unfit(found, str(kind), path) from None


def scalar(found: str, kind: pa.DataType) -> Any:
    """Convert a number or a time. Raises ValueError, InvalidOperation, OverflowError."""
    is_number = isinstance(found, Number)
    if pa.types.is_integer(kind):
        value = int(found) if is_number else None
        if value is None or not -(2 ** (kind.bit_width - 1)) <= value < 2 ** (kind.bit_width - 1):
            raise ValueError(found)
        return value
    if pa.types.is_floating(kind):
        if not is_number and found not in NOT_FINITE:
            raise ValueError(found)
        return floating(NOT_FINITE.get(found, found), kind)
    if pa.types.is_decimal(kind):
        return decimal_of(found, kind)
    if pa.types.is_timestamp(kind):
        return moment(found, kind, is_number)
    if is_number:
        raise ValueError(found)
    if pa.types.is_date(kind):
        return date.fromisoformat(found if DAY.fullmatch(found) else "")
    return base64.b64decode(found, validate=True)  # Binary.


def floating(text: str, kind: pa.DataType) -> float:
    """Return the nearest number of the type. Rounding to a double first could give a neighbour of the nearest float."""
    if kind == pa.float64():
        return float(text)
    try:
        return float(pa.scalar(str(text)).cast(kind).as_py())
    except pa.ArrowInvalid:
        return float(text)  # Too large.


def decimal_of(text: str, kind: pa.Decimal128Type) -> Decimal:
    """Parse a decimal, rounded half up to the scale, as Spark does. Raises ValueError, InvalidOperation."""
    if DECIMAL.fullmatch(text) is None:
        raise ValueError(text)
    context = Context(prec=DIGITS_MAX)
    value = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, context)
    if len(value.as_tuple().digits) > kind.precision:
        raise ValueError(text)
    return value


def moment(text: str, kind: pa.TimestampType, is_number: bool) -> datetime:
    """Parse an ISO 8601 time. Without a zone it is UTC; a TIMESTAMP_NTZ has no zone. An integer is seconds since 1970,
    as in from_json. Raises ValueError, OverflowError."""
    if is_number:
        if kind.tz is None:
            raise ValueError(text)
        return datetime.fromtimestamp(int(text), UTC)
    if DAY.match(text) is None:
        raise ValueError(text)
    found = datetime.fromisoformat(text)
    if kind.tz is None:
        if found.tzinfo is not None:
            raise ValueError(text)
        return found
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def encodable(text: str, path: str) -> str:
    """Return the text. Raises BadValue if it holds half of a surrogate pair, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadValue(f"{path}: half of a surrogate pair") from None
    return text


def written(found: Any) -> str:
    """Return the JSON text of a value that is not a string, for a string field. Numbers keep their original text."""
    if isinstance(found, Number):
        return str(found)
    if isinstance(found, dict):
        return "{" + ",".join(f"{written(key)}:{written(each)}" for key, each in found.items()) + "}"
    if isinstance(found, list):
        return "[" + ",".join(map(written, found)) + "]"
    return json.dumps(found, ensure_ascii=False)


def unfit(found: Any, wanted: str, path: str) -> BadValue:
    shown = written(found)
    shown = shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}..."
    return BadValue(f"{path}: {shown} is not {wanted}" if path else f"{shown} is not {wanted}")
