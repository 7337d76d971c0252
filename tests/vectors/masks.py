"""What differs between two runs of the same script, taken out of answers: ids, times, addresses and sentences for
people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TEXTS = frozenset({"error_message", "batch_index_error_message", "documentation"})
UNORDERED = frozenset({"members", "entries", "entity", "topic_partitions"})  # By ids drawn at random, or by a hash.
ALWAYS = {
    "cluster_id": "<cluster>",
    "host": "<host>",
    "port": "<port>",
    "log_dir": "<directory>",
    "total_bytes": "<bytes>",
    "usable_bytes": "<bytes>",
    "finalized_features_epoch": "<epoch>",
    "current_metadata_offset": "<offset>",
    "client_host": "<host>",
    "directory_id": "<uuid>",
    "replica_directory_id": "<uuid>",
    "broker_epoch": "<epoch>",
    "session_id": "<session>",
}
UNLESS_NEGATIVE = {
    "log_append_time_ms": "<time>",
    "last_timestamp": "<time>",
    "last_fetch_timestamp": "<time>",
    "last_caught_up_timestamp": "<time>",
    "producer_id": "<producer>",
    "producer_id_start": "<producer>",
}


class Masks:
    """Masks of one answer: `saved` values appear under their `$names`; `extra` fields are masked for this step."""

    def __init__(self, saved: Mapping[str, Any], extra: tuple[str, ...]) -> None:
        self.extra = frozenset(extra)
        self.names: dict[Any, str] = {}
        for name, value in saved.items():
            if isinstance(value, (str, bytes)) and value and value != bytes(16):
                self.names.setdefault(value, f"${name}")
                if isinstance(value, str):  # As in the header of a record.
                    self.names.setdefault(value.encode(), f"${name}")

    def of(self, value: Any, field: str = "") -> Any:
        """The masked form of `value`, which stands in `field`; made of JSON's types only."""
        if field in self.extra:
            return "<masked>"
        if isinstance(value, dict):
            return {name: self.of(each, name) for name, each in value.items()}
        if isinstance(value, list):
            masked = [self.of(each, field) for each in value]
            return sorted(masked, key=repr) if field in UNORDERED else masked
        if isinstance(value, (str, bytes)) and value in self.names:
            return self.names[value]
        if field in TEXTS:
            return "<text>" if value else value
        if field in ALWAYS and value not in (None, 0, "", bytes(16)):
            return ALWAYS[field]
        if field in UNLESS_NEGATIVE and isinstance(value, int) and value >= 0:
            return UNLESS_NEGATIVE[field]
        if isinstance(value, bytes):
            return self.of_bytes(value, field)
        return value

    def of_bytes(self, value: bytes, field: str) -> Any:
        if field.endswith("_id") and len(value) == 16:
            return "<uuid>" if any(value) else "<zero uuid>"
        text = value.decode("ascii", "replace")
        return text if text.isprintable() and "\ufffd" not in text else f"hex:{value.hex()}"
