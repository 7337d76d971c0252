"""The only mapping from internal errors to Kafka's error codes."""

from __future__ import annotations

from kraft.common.errors import ApiError, CorruptData, KraftError, NotLeader, ProtocolError, StorageError
from kraft.protocol.error_codes import ErrorCode

EXPECTED = (KraftError, OSError)
"""Exceptions that a handler may answer with an error code. Any other is a defect: it is logged with its traceback and
answered with UNKNOWN_SERVER_ERROR."""


def code_of(problem: BaseException) -> int:
    """Kafka's error code for `problem`."""
    if isinstance(problem, ApiError):
        return problem.code
    if isinstance(problem, NotLeader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if isinstance(problem, CorruptData):
        return ErrorCode.CORRUPT_MESSAGE
    if isinstance(problem, StorageError | OSError):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if isinstance(problem, ProtocolError):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.UNKNOWN_SERVER_ERROR


def message_of(problem: BaseException) -> str | None:
    """The error message for the client; None if the code needs none."""
    if isinstance(problem, ApiError):
        return problem.message or None
    if isinstance(problem, EXPECTED):
        return str(problem) or None
    return "the server met an unexpected error; its log has the details"
