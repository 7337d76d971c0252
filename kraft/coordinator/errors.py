"""The errors a coordinator returns to clients when the log refuses an append. The table is Kafka's."""

from __future__ import annotations

from kraft.common.errors import ApiError, KraftError, NotLeader
from kraft.protocol.error_codes import ErrorCode

_COORDINATOR_CODES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # A transaction could not be verified. Clients try again on this without looking up the coordinator again.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class ReloadNeeded(Exception):
    """Raised when an append may be partial or not durable: the shard must be reloaded from the log."""


_PRODUCER_CODES = frozenset(
    (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    )
)


def producer_error(problem: KraftError) -> ApiError:
    """Convert an error like `append_error`, but pass the log's errors about the producer on unchanged."""
    if isinstance(problem, ApiError) and problem.code in _PRODUCER_CODES:
        return problem
    return append_error(problem)


def append_error(problem: KraftError) -> ApiError:
    """The client's error when the log refuses its records. Codes unknown to clients of a coordinator are translated."""
    if isinstance(problem, ApiError):
        code = problem.code
    elif isinstance(problem, NotLeader):
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        code = ErrorCode.KAFKA_STORAGE_ERROR
    return ApiError(_COORDINATOR_CODES.get(code, code), str(problem))
