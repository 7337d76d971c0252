"""One answer to every OSError of the storage engine: what the caller must do about it."""

from __future__ import annotations

from kraft.common.errors import ApiError, StorageError
from kraft.protocol.error_codes import ErrorCode
from kraft.storage.index_file import DISK_FULL_ERRORS


def storage_failure(problem: OSError, what: str) -> ApiError | StorageError:
    """A full disk refuses this one request (KAFKA_STORAGE_ERROR) and may have room again later; anything else takes the log directory offline."""
    if problem.errno in DISK_FULL_ERRORS:
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: no space left: {problem}")
    return StorageError(f"{what}: {problem}")
