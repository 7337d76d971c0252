"""Records as tests write and read them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The partition and offset at which a record was stored."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record that was read. A null key or value is None."""

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
    """Encode text as UTF-8; bytes and None are returned unchanged."""
    return data.encode() if isinstance(data, str) else data


def as_property(name: str) -> str:
    """Return the Kafka property for a Python keyword: `cleanup_policy` is `cleanup.policy`."""
    return name if "." in name else name.replace("_", ".")


def as_setting(value: object) -> str:
    """Return a configuration value as the text of a Kafka property."""
    return str(value).lower() if isinstance(value, bool) else str(value)
