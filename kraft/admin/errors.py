"""The error of a rejected request: its subject, the reason, and Kafka's error code."""

from __future__ import annotations

from typing import Final

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode, message_of, name_of

_MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.GROUP_ID_NOT_FOUND)
"""Codes whose message in Kafka describes the responding broker. `Refused.sentence` names the missing object instead."""

UNKNOWN_TOPIC: Final = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID))
"""Kafka calls these codes retriable, because the topic may just have been created. Here they are reported immediately:
a topic requested by name mostly does not exist."""


class Refused(ApiError):
    """Raised when a node rejects a request. The text is for a terminal and ends with the code's name; `sentence` is the
    text without that name."""

    def __init__(self, code: int, what: str = "", message: str | None = None) -> None:
        """`what` is the subject of the error text; `message` is the node's own message, if it sent one."""
        own = None if message == message_of(code) else message
        reason = own or message_of(code)
        if not own and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            reason = "there is no such topic or partition"  # The protocol's own sentence speaks of one broker.
        about = f"{what}: {reason}" if what else reason
        super().__init__(code, f"{about} ({name_of(code)})")
        self.name = name_of(code)
        self.sentence = f"{what} does not exist" if what and not own and code in _MISSING else about


def check(code: int, what: str, message: str | None = None) -> None:
    """Raise Refused unless `code` is NONE."""
    if code != ErrorCode.NONE:
        raise Refused(code, what, message)
