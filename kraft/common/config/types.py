"""The value types of configuration keys, parsed exactly as Kafka does (ConfigDef.parseType).

A parser takes the trimmed text and returns a plain Python value, or raises ValueError with Kafka's message. `text_of`
is the inverse: the canonical text that DescribeConfigs shows.
"""

from __future__ import annotations

import math
import re
from typing import Final

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType:
    """Type codes as on the wire (DescribeConfigsResponse.ConfigType) and their names in Kafka's messages."""

    BOOLEAN: Final = 1
    STRING: Final = 2
    INT: Final = 3
    SHORT: Final = 4
    LONG: Final = 5
    DOUBLE: Final = 6
    LIST: Final = 7
    CLASS: Final = 8
    PASSWORD: Final = 9


TYPE_NAMES: Final = {
    1: "BOOLEAN",
    2: "STRING",
    3: "INT",
    4: "SHORT",
    5: "LONG",
    6: "DOUBLE",
    7: "LIST",
    8: "CLASS",
    9: "PASSWORD",
}

_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_INTEGER: Final = r"[+-]?[0-9]+"
_DOUBLE: Final = r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?)"
_HEX_DOUBLE: Final = r"([+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+)[fFdD]?"


def parse_text(type_code: int, text: str) -> Value:
    """The value of `text`. Raises ValueError with Kafka's message."""
    trimmed = text.strip()
    if type_code in _BITS:
        return _parse_integer(type_code, trimmed)
    if type_code == ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise ValueError("Expected value to be either true or false")
        return lowered == "true"
    if type_code == ConfigType.DOUBLE:
        return _parse_double(trimmed)
    if type_code == ConfigType.LIST:
        return split_list(trimmed)
    return trimmed


def _parse_integer(type_code: int, text: str) -> int:
    limit = 1 << (_BITS[type_code] - 1)
    if re.fullmatch(_INTEGER, text) and len(text) <= 40:
        value = int(text)
        if -limit <= value < limit:
            return value
    raise ValueError(f"Not a number of type {TYPE_NAMES[type_code]}")


def _parse_double(text: str) -> float:
    hexadecimal = re.fullmatch(_HEX_DOUBLE, text)
    try:
        if hexadecimal:
            return float.fromhex(hexadecimal[1])
        if re.fullmatch(_DOUBLE, text):
            return float(text if text.endswith(("NaN", "Infinity")) else text.rstrip("fFdD"))
    except (ValueError, OverflowError) as problem:
        raise ValueError("Not a number of type DOUBLE") from problem
    raise ValueError("Not a number of type DOUBLE")


def split_list(text: str) -> tuple[str, ...]:
    """The elements of a comma-separated list; blanks around commas are ignored, and an empty text is the empty list."""
    trimmed = text.strip()
    return tuple(re.split(r"\s*,\s*", trimmed)) if trimmed else ()


def text_of(type_code: int, value: Value) -> str | None:
    """The canonical text of a parsed value; None stands for Kafka's null."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if type_code == ConfigType.DOUBLE:
        return java_double_text(float(value))
    return str(value)


def java_double_text(value: float) -> str:
    """A double as Java prints it: `0.5`, `1000.0`, `1.7976931348623157E308`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = repr(value)
        return plain if "e" not in plain else f"{value:f}"
    mantissa, exponent = f"{value:.17e}".split("e")
    digits = repr(value).lower().replace("-", "").split("e")[0].replace(".", "").strip("0") or "0"
    sign = "-" if mantissa.startswith("-") else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"
