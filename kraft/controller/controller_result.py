"""What a control decides: records to write and the answer to give once they are committed."""

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
    """Records and an answer. Atomic records go into one batch, all or none; others may be split over several."""

    __slots__ = ("atomic", "records", "response")

    def __init__(self, records: list[Record], response: T, *, atomic: bool = False) -> None:
        self.records = records
        self.response = response
        self.atomic = atomic

    def __repr__(self) -> str:
        return f"ControllerResult(records={self.records!r}, response={self.response!r}, atomic={self.atomic})"


Decision = ControllerResult[T] | Steps[ControllerResult[T]]
"""What an operation decides. One of many partitions yields after each of them: others may be served there, and nobody
else decides meanwhile."""


def generic_error(code: int) -> ApiError:
    """An error with Kafka's standard sentence for its code."""
    return ApiError(code, message_of(code))


def message_of_error(error: ApiError) -> str | None:
    """What goes into an ErrorMessage field: null when there is nothing to say."""
    return error.message or None


def check_operation_size(records: list[Record]) -> None:
    """Refuse an operation of a user that would write more than 10,000 records. Raises ApiError(POLICY_VIOLATION)."""
    if len(records) > MAX_RECORDS_PER_USER_OPERATION:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
