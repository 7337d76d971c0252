"""One JSON text as a value of a type: exact, and slow. `json_decoder` comes here with what is not plain. Pure."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

DIGITS_MAX = 100
"""Of a decimal while it is rounded to the type's scale; more than any type holds."""
SHOWN_MAX = 60
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
"""How dates and times begin: of ISO 8601 this form alone."""
NOT_FINITE = {
    "NaN": "nan",
    "+INF": "inf",
    "Infinity": "inf",
    "+Infinity": "inf",
    "-INF": "-inf",
    "-Infinity": "-inf",
}
"""What floats may also be called, as from_json allows: as a token, or within quotes."""


class Number(str):
    """A number's own text."""

    __slots__ = ()


class BadValue(ValueError):
    """The text is not what the schema says."""


def value_of(text: bytes, kind: pa.StructType) -> dict[str, Any] | None:
    """The object as a value of the struct: missing fields are None, others are passed over; `null` is None. Raises
    BadValue."""
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
    """What was parsed, as Python's value for the Arrow type. Raises BadValue."""
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
    """Numbers and times. Raises ValueError, InvalidOperation, OverflowError."""
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
    """The nearest of the type's numbers. One that is rounded to a double first may come out beside it."""
    if kind == pa.float64():
        return float(text)
    try:
        return float(pa.scalar(str(text)).cast(kind).as_py())
    except pa.ArrowInvalid:
        return float(text)  # Too large.


def decimal_of(text: str, kind: pa.Decimal128Type) -> Decimal:
    """Rounded half up to the scale, as Spark does. Raises ValueError, InvalidOperation."""
    if DECIMAL.fullmatch(text) is None:
        raise ValueError(text)
    context = Context(prec=DIGITS_MAX)
    value = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, context)
    if len(value.as_tuple().digits) > kind.precision:
        raise ValueError(text)
    return value


def moment(text: str, kind: pa.TimestampType, is_number: bool) -> datetime:
    """ISO 8601. Without a zone it is UTC; a TIMESTAMP_NTZ has none. A whole number is seconds since 1970, as from_json
    has it. Raises ValueError, OverflowError."""
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
    """Raises BadValue for half of a surrogate pair, which no UTF-8 can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadValue(f"{path}: half of a surrogate pair") from None
    return text


def written(found: Any) -> str:
    """What is not a string, where one is wanted: its JSON, numbers as they stood."""
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
