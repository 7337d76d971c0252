"""Limits how far other replicas may raise this replica's epoch.

An epoch is an int32, and each election takes the next one. A replica that accepted an epoch near the maximum would end
the quorum permanently, since no election could follow. Raft, and Apache Kafka, accept every epoch in a message. This
module accepts only epochs that elections can have reached:

- A *request* (Vote, BeginQuorumEpoch, EndQuorumEpoch) may come from any client that can reach the port. It may raise
  the epoch by the remaining allowance, which refills at `CLAIMED_RISE_PER_S` up to `CLAIMED_RISE_MAX`. Elections are
  slower than that, even if every one fails.
- A *response* comes from an address in the voter set or the configuration, to a request of this replica. It may raise
  the epoch to `ANSWERED_EPOCH_MAX`. Two elections a second take 17 years to reach that.

A replica that was away for longer than the allowance covers refuses the requests of the other replicas. But it sends
requests itself, like every replica without a leader, and accepts the epoch in the response. A replica whose epoch is
far ahead of a quorum with a leader is accepted when it responds to that leader's BeginQuorumEpoch.
"""

from __future__ import annotations

EPOCH_MAX = (1 << 31) - 1
"""The greatest epoch that messages and `quorum-state` can contain."""
ANSWERED_EPOCH_MAX = 1 << 30
CLAIMED_RISE_MAX = 10_000
CLAIMED_RISE_PER_S = 10


class EpochAllowance:
    """The number of epochs by which requests may still raise this replica's epoch. `now_ms` must never fall."""

    __slots__ = ("_at_ms", "_left")

    def __init__(self, now_ms: int) -> None:
        self._left = CLAIMED_RISE_MAX
        self._at_ms = now_ms

    def admits_request(self, own_epoch: int, claimed_epoch: int, now_ms: int) -> bool:
        """Whether a request may name `claimed_epoch`. Epochs up to the replica's own are always accepted."""
        self._refill(now_ms)
        return claimed_epoch <= min(own_epoch + max(self._left, 0), EPOCH_MAX - 1) or claimed_epoch <= own_epoch

    def admits_answer(self, own_epoch: int, answered_epoch: int, now_ms: int) -> bool:
        """Whether a response may name `answered_epoch`."""
        return answered_epoch <= ANSWERED_EPOCH_MAX or self.admits_request(own_epoch, answered_epoch, now_ms)

    def spend(self, rise: int) -> None:
        """Record that a request has raised the epoch by `rise`."""
        assert 0 <= rise <= self._left, f"a rise of {rise} epochs, with {self._left} left"
        self._left -= rise

    def _refill(self, now_ms: int) -> None:
        earned = (now_ms - self._at_ms) * CLAIMED_RISE_PER_S // 1000
        if earned > 0:
            self._left = min(self._left + earned, CLAIMED_RISE_MAX)
            self._at_ms += earned * 1000 // CLAIMED_RISE_PER_S
