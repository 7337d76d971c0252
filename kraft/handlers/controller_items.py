"""How much the controller is asked to decide in one request.

It decides a request in one go, from one image. Kafka's controller, too, refuses what comes to more than 10,000 records
with POLICY_VIOLATION; brokers refuse it here, before they hand it on.
"""

from __future__ import annotations

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode

ITEMS_MAX = 10_000


def check_item_count(count: int) -> None:
    """Raises ApiError POLICY_VIOLATION, with Kafka's sentence."""
    if count > ITEMS_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
