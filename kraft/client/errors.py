"""What can go wrong between a client and a cluster, beside what the nodes answer (`ApiError`, with Kafka's codes)."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition


class NoBroker(KraftError):
    """No node of the cluster can be reached. `reasons` has why, for each address that was tried."""

    def __init__(self, message: str, reasons: Sequence[Exception] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)


class TopicRecreated(KraftError):
    """The topic that was read has been deleted, and another one has its name now."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic} was deleted and made anew: what was read of it says nothing of the new one; assign its "
            "partitions again, from where the new one shall be read"
        )
        self.topic = topic


class LoginFailed(KraftError):
    """The node did not take our login (SASL), or is not the node that it should be. `may_pass`: trying again may help,
    as where who gives out tokens is away."""

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class DeadlinePassed(KraftError):
    """What was asked did not come about in time. The cause is the last thing that went wrong, if anything did."""


class LogTruncated(KraftError):
    """What was read is no longer what the log holds: an election lost records (KIP-320)."""

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
    """What is told of a record that had its time; `last` is what went wrong at the last attempt."""
    late = DeadlinePassed(
        f"not acknowledged within {seconds:g} s" + (f"; the last attempt: {last}" if last is not None else "")
    )
    late.__cause__ = last
    return late
