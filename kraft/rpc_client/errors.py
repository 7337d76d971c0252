"""Errors between a client and a cluster, besides the nodes' error codes (`ApiError`, with Kafka's codes)."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition


class NoBroker(KraftError):
    """Raised when no node of the cluster can be reached. `reasons` has the error of each address that was tried."""

    def __init__(self, message: str, reasons: Sequence[Exception] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)


class TopicRecreated(KraftError):
    """Raised when the topic being read was deleted and recreated with the same name."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic} was deleted and recreated: what was read of it says nothing of the new one; assign its "
            "partitions again, from where the new one shall be read"
        )
        self.topic = topic


class LoginFailed(KraftError):
    """Raised when a SASL login failed: the node rejected it, or is not the expected node. `may_pass`: a retry may help,
    for example if the token endpoint is unreachable."""

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class DeadlinePassed(KraftError):
    """Raised when an operation did not complete in time. The cause is the last error, if there was one."""


class LogTruncated(KraftError):
    """Raised when the log no longer holds the records that were read: an election lost them (KIP-320)."""

    def __init__(
        self, partition: TopicPartition, position: int, position_epoch: int, end_offset: int, end_epoch: int
    ) -> None:
        super().__init__(
            f"{partition}: was read up to offset {position} in leader epoch {position_epoch}, but the log has "
            "lost records since then:"
            f" it agrees at most up to offset {end_offset}, where leader epoch {end_epoch} ends; seek there, "
            "or choose where to go on"
        )
        self.partition = partition
        self.end_offset = end_offset


def not_acknowledged(seconds: float, last: Exception | None) -> DeadlinePassed:
    """Return the error of a record that was not acknowledged in time. `last` is the error of the last attempt."""
    late = DeadlinePassed(
        f"not acknowledged within {seconds:g} s" + (f"; the last attempt: {last}" if last is not None else "")
    )
    late.__cause__ = last
    return late
