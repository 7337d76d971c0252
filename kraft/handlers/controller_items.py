"""The limit on the number of items in one request to the controller.

The controller decides a request in one step, from one image. As in Kafka, a request of more than 10,000 items gets
POLICY_VIOLATION; brokers check this before they forward it.
"""

from __future__ import annotations

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode

ITEMS_MAX = 10_000


def check_item_count(count: int) -> None:
    """Raises ApiError POLICY_VIOLATION with Kafka's message if `count` exceeds the limit."""
    if count > ITEMS_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
