"""The result of a control's decision: records to write, and the response to send once they are committed."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode, message_of
from kraft.world.steps import Steps

T = TypeVar("T")

Record = Any

MAX_RECORDS_PER_BATCH: Final = 10_000
MAX_RECORDS_PER_USER_OPERATION: Final = 10_000


class ControllerResult(Generic[T]):
    """Records and a response. Atomic records are written in one batch, all or none. Other records may be split over
    several batches."""

    __slots__ = ("atomic", "records", "response")

    def __init__(self, records: list[Record], response: T, *, atomic: bool = False) -> None:
        self.records = records
        self.response = response
        self.atomic = atomic

    def __repr__(self) -> str:
        return f"ControllerResult(records={self.records!r}, response={self.response!r}, atomic={self.atomic})"


Decision = ControllerResult[T] | Steps[ControllerResult[T]]
"""The decision of an operation. An operation on many partitions yields after each: other tasks may run there, but no
other decision is made."""


def generic_error(code: int) -> ApiError:
    """Return an error with Kafka's standard message for its code."""
    return ApiError(code, message_of(code))


def message_of_error(error: ApiError) -> str | None:
    """The value of an ErrorMessage field: null if there is no message."""
    return error.message or None


def check_operation_size(records: list[Record]) -> None:
    """Raises ApiError(POLICY_VIOLATION) if a user's operation would write more than 10,000 records."""
    if len(records) > MAX_RECORDS_PER_USER_OPERATION:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
