"""The permitted values of keys. Each validator rejects with Kafka's message and describes itself for documentation.

`check(name, value)` returns None or the whole error message; the messages are those of Kafka's ConfigDef validators,
which client tools show and tests compare.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol
from urllib.parse import urlsplit

from kraft.common.config.types import ConfigType, Value, text_of


class Validator(Protocol):
    def check(self, name: str, value: Value) -> str | None: ...
    def describe(self) -> str:
        """The valid values in Kafka's notation, as `[1,...]` or `[compact, delete]`; empty if all are valid."""


def invalid(name: str, shown: object, reason: str) -> str:
    """Kafka's ConfigException text."""
    return f"Invalid value {shown} for configuration {name}: {reason}"


def shown(value: Value) -> str:
    """A value as Java would print it in a message."""
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return text_of(ConfigType.DOUBLE if isinstance(value, float) else ConfigType.STRING, value) or (
        "null" if value is None else ""
    )


class Anything:
    """Accepts every value of the type."""

    __slots__ = ()

    def check(self, name: str, value: Value) -> str | None:
        return None

    def describe(self) -> str:
        return ""


class HttpUrl:
    """Accepts an http or https URL without a user, or the empty text."""

    __slots__ = ()

    def check(self, name: str, value: Value) -> str | None:
        text = value if isinstance(value, str) else ""
        try:
            parts = urlsplit(text)
            is_url = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
        except ValueError:
            return invalid(name, shown(value), "The URL cannot be read")
        if not text or (is_url and "@" not in parts.netloc and not re.search(r"[\s\x00-\x20\x7f-\uffff]", text)):
            return None
        return invalid(name, shown(value), "It must be an http or https URL with a host and without a user")

    def describe(self) -> str:
        return "http or https URL"


class Range:
    """Accepts a number between two inclusive bounds; None is no bound."""

    __slots__ = ("high", "low")

    def __init__(self, low: float | None, high: float | None) -> None:
        self.low = low
        self.high = high

    def check(self, name: str, value: Value) -> str | None:
        if not isinstance(value, int | float):
            return None if value is None else invalid(name, shown(value), "Value must be a number")
        if self.low is not None and value < self.low:
            return invalid(name, shown(value), f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            return invalid(name, shown(value), f"Value must be no more than {self.high}")
        return None

    def describe(self) -> str:
        ends = ["" if self.low is None else str(self.low), "...", "" if self.high is None else str(self.high)]
        return f"[{','.join(end for end in ends if end)}]"


class GzipLevel:
    """Accepts a compression level from 1 to 9, or -1 for the library's default."""

    __slots__ = ()

    def check(self, name: str, value: Value) -> str | None:
        if isinstance(value, int) and (1 <= value <= 9 or value == -1):
            return None
        return invalid(name, shown(value), "Value must be between 1 and 9 or equal to -1")

    def describe(self) -> str:
        return "[1,...,9] or -1"


class OneOf:
    """Accepts one of the given words."""

    __slots__ = ("fold_case", "words")

    def __init__(self, words: tuple[str, ...], fold_case: bool = False) -> None:
        self.words = words
        self.fold_case = fold_case

    def check(self, name: str, value: Value) -> str | None:
        word = shown(value)
        if (word.upper() if self.fold_case else word) in self.words:
            return None
        return invalid(
            name,
            word,
            f"String must be one of{' (case insensitive)' if self.fold_case else ''}: {', '.join(self.words)}",
        )

    def describe(self) -> str:
        return f"{'(case insensitive) ' if self.fold_case else ''}[{', '.join(self.words)}]"


class NonEmptyText:
    """Accepts any text except the empty one."""

    __slots__ = ()

    def check(self, name: str, value: Value) -> str | None:
        return invalid(name, value, "String must be non-empty") if value == "" else None

    def describe(self) -> str:
        return "non-empty string"


class DistinctList:
    """Accepts a list without duplicates or empty elements, optionally limited to given words or non-empty (Kafka's
    ValidList)."""

    __slots__ = ("may_be_empty", "words")

    def __init__(self, words: tuple[str, ...] = (), may_be_empty: bool = True) -> None:
        self.words = words
        self.may_be_empty = may_be_empty

    def check(self, name: str, value: Value) -> str | None:
        if not isinstance(value, tuple):
            return None
        if not value and not self.may_be_empty:
            wanted = f"[{', '.join(self.words)}]" if self.words else "any non-empty value"
            return f"Configuration '{name}' must not be empty. Valid values include: {wanted}"
        if len(dict.fromkeys(value)) != len(value):
            return f"Configuration '{name}' values must not be duplicated."
        for element in value:
            if not element:
                return f"Configuration '{name}' values must not be empty."
            if self.words and element not in self.words:
                return invalid(name, element, f"String must be one of: {', '.join(self.words)}")
        return None

    def describe(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


class HostList:
    """Accepts names or addresses of hosts, without scheme, port or brackets."""

    __slots__ = ()

    def check(self, name: str, value: Value) -> str | None:
        for element in value if isinstance(value, tuple) else ():
            if re.fullmatch(r"[\w.-]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*", element, re.ASCII) is None:
                return invalid(name, element, "A host is a name or an address, without scheme and port")
        return None

    def describe(self) -> str:
        return "host,host,..."


_THROTTLED_FORMAT: Final = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class ThrottledReplicas:
    """Accepts `*`, or pairs of partition and broker."""

    __slots__ = ()

    def check(self, name: str, value: Value) -> str | None:
        if (
            not isinstance(value, tuple)
            or value == ("*",)
            or all(re.fullmatch(r"[0-9]+:[0-9]+", pair) for pair in value)
        ):
            return None
        return invalid(
            name,
            shown(value),
            f"{name} must be the literal '*' or a list of replicas in the following format: {_THROTTLED_FORMAT}",
        )

    def describe(self) -> str:
        return _THROTTLED_FORMAT


class EachEntry:
    """Accepts a list if a function finds no error in any entry. The function returns an error text or None."""

    __slots__ = ("description", "judge")

    def __init__(self, judge: Callable[[str, str], str | None], description: str) -> None:
        self.judge = judge
        self.description = description

    def check(self, name: str, value: Value) -> str | None:
        entries = value if isinstance(value, tuple) else ()
        return next((problem for problem in (self.judge(name, entry) for entry in entries) if problem), None)

    def describe(self) -> str:
        return self.description


def _judge_voter(name: str, entry: str) -> str | None:
    form = "Each entry should be in the form `{id}@{host}:{port}`."
    identifier, at, address = entry.partition("@")
    if not at:
        return f"Invalid configuration value for {name}. {form}"
    if not re.fullmatch(r"[+-]?[0-9]+", identifier):
        return f"Failed to parse voter ID as an integer from {identifier}"
    if not re.fullmatch(ADDRESS, address):
        return f"Failed to parse host name from entry {entry} for the configuration {name}. {form}"
    return None


def _judge_address(name: str, entry: str) -> str | None:
    if re.fullmatch(ADDRESS, entry):
        return None
    return (
        f"Failed to parse host name from {entry} for the configuration {name}. Each entry should be in the form "
        f'"{{host}}:{{port}}"'
    )


ADDRESS: Final = r"(?P<host>\[[0-9a-zA-Z:%._]+\]|[^\s\[\]:@,/]+):(?P<port>[0-9]{1,5})"

ANYTHING: Final = Anything()
GZIP_LEVEL: Final = GzipLevel()
NON_EMPTY: Final = NonEmptyText()
DISTINCT: Final = DistinctList()
HOSTS: Final = HostList()
HTTP_URL: Final = HttpUrl()
DISTINCT_NON_EMPTY: Final = DistinctList(may_be_empty=False)
THROTTLED_REPLICAS: Final = ThrottledReplicas()
VOTERS: Final = EachEntry(_judge_voter, "{id}@{host}:{port} entries")
ADDRESSES: Final = EachEntry(_judge_address, "{host}:{port} entries")


def at_least(low: float) -> Range:
    return Range(low, None)


def between(low: float, high: float) -> Range:
    return Range(low, high)


def one_of(*words: str) -> OneOf:
    return OneOf(words)


def one_of_any_case(*words: str) -> OneOf:
    return OneOf(words, fold_case=True)


def list_of(*words: str, may_be_empty: bool = True) -> DistinctList:
    return DistinctList(words, may_be_empty)


class OffsetReset:
    """Accepts `earliest`, `latest`, or `by_duration:` with an ISO 8601 duration (KIP-1106)."""

    __slots__ = ()

    def check(self, name: str, value: Value) -> str | None:
        word = shown(value)
        if word in ("latest", "earliest") or re.fullmatch(_OFFSET_RESET_DURATION, word, re.IGNORECASE):
            return None
        wanted = "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        return invalid(name, word, f"Invalid value `{word}` for configuration {name}. {wanted}")

    def describe(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"


_OFFSET_RESET_DURATION: Final = r"by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{0,9})?S)?)?"
OFFSET_RESET: Final = OffsetReset()
