"""Records as tests write and read them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Where a record was stored."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as it was read. A null key or value is None."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def text(self) -> str:
        """The value as UTF-8; "" for null. Raises UnicodeDecodeError."""
        return (self.value or b"").decode()


def as_bytes(data: bytes | str | None) -> bytes | None:
    """Text as UTF-8."""
    return data.encode() if isinstance(data, str) else data


def as_property(name: str) -> str:
    """A key of Kafka's, as Python's keywords can spell it: `cleanup_policy` is `cleanup.policy`."""
    return name if "." in name else name.replace("_", ".")


def as_setting(value: object) -> str:
    """A configuration value as Kafka's properties hold it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
