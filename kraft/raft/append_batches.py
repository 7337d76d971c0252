"""The state machine's appends, from records to a batch on disk: encoded and split immediately, given offsets by the
core, and built when written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import build_values_batch
from kraft.raft.control_batches import encode_payload
from kraft.raft.core.log_state import Batch
from kraft.raft.core.payloads import LeaderChange, Voters


class Appended(NamedTuple):
    """The payload of a batch that the state machine appends: the encoded values."""

    values: tuple[bytes, ...]
    timestamp_ms: int


def encode_batch(batch: Batch, now_ms: int) -> bytes:
    """Return the bytes of a batch. Its offset must be final."""
    payload = batch.payload
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, LeaderChange | Voters):
        return encode_payload(payload, base_offset=batch.base_offset, epoch=batch.epoch, timestamp_ms=now_ms)
    assert isinstance(payload, Appended), f"nobody appends {payload!r}"
    return build_values_batch(
        payload.values, payload.timestamp_ms, base_offset=batch.base_offset, leader_epoch=batch.epoch
    )


def split(values: Sequence[bytes], bytes_max: int, atomic: bool) -> list[list[bytes]]:
    """Split `values` into batches of at most `bytes_max`; into one batch if `atomic`. Raises ApiError if one value, or
    all values of an atomic batch, are too large."""
    chunks: list[list[bytes]] = [[]]
    size = 0
    for value in values:
        if len(value) > bytes_max:
            raise _too_large(f"a metadata record of {len(value)} bytes is larger than a batch ({bytes_max})")
        if size + len(value) > bytes_max:
            if atomic:
                raise _too_large(f"more than {bytes_max} bytes of metadata records in one batch")
            chunks.append([])
            size = 0
        chunks[-1].append(value)
        size += len(value)
    assert chunks[0], "nothing to append"
    return chunks


def _too_large(what: str) -> ApiError:
    return ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, what)
