"""The states of share partitions, as used by leaders of partitions and by group coordinators. The share coordinator of
each share partition may be on any node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kraft.coordinator.share.share_state import SharePartitionKey, StateBatch


class ReadState(NamedTuple):
    """The state of a share partition in the share coordinator. `start_offset` is -1 until a leader has chosen it."""

    state_epoch: int
    start_offset: int
    batches: Sequence[StateBatch]


class StateSummary(NamedTuple):
    """The progress of a group in a share partition. `start_offset` is -1 without a state, or until a leader has chosen
    it. `delivery_complete_count` is the number of settled records from the start offset on; -1 if unknown."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class DeliveryStates(Protocol):
    """The share coordinators, as leaders of partitions use them. All methods raise ApiError: the coordinator's refusal,
    or COORDINATOR_NOT_AVAILABLE after a bounded number of attempts."""

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState:
        """Read the state, and fence the leaders of earlier epochs."""

    async def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        """Add delivery states, and raise the start offset."""


class ShareStates(DeliveryStates, Protocol):
    """The share coordinators, as group coordinators use them too. All methods raise as those of `DeliveryStates`."""

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin a new state at `start_offset` (-1: the partition's leader chooses). A higher state epoch fences writers
        of the earlier state."""

    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        """Read the progress of the share partition."""

    async def delete(self, key: SharePartitionKey) -> None:
        """Delete the state, if there is one."""
