"""How far others may raise our epoch.

An epoch is an int32, and each election takes the next one: a replica that believed in an epoch near the last one
would end the quorum for good, since no election could follow. Raft believes every epoch that it is told, and so does
Apache Kafka. We believe as much as elections can have caused:

- A *request* (Vote, BeginQuorumEpoch, EndQuorumEpoch) comes from whoever can reach our port. It may raise our epoch
  by what is left of an allowance that refills at `CLAIMED_RISE_PER_S`, up to `CLAIMED_RISE_MAX`. Elections are
  slower than that, even when every one of them fails.
- An *answer* comes from an address of our voter set or our configuration, to a question of ours. It may raise our
  epoch to `ANSWERED_EPOCH_MAX`; two elections a second take 17 years to get there.

A replica that was away for longer than the allowance covers refuses the requests of the others, asks them itself, as
every replica without a leader does, and believes the answer. One whose epoch is far ahead of a quorum that has a
leader is heard when it answers that leader's BeginQuorumEpoch.
"""

from __future__ import annotations

EPOCH_MAX = (1 << 31) - 1
"""The greatest epoch that messages and `quorum-state` can carry."""
ANSWERED_EPOCH_MAX = 1 << 30
CLAIMED_RISE_MAX = 10_000
CLAIMED_RISE_PER_S = 10


class EpochAllowance:
    """The epochs by which requests may still raise ours. `now_ms` never falls."""

    __slots__ = ("_at_ms", "_left")

    def __init__(self, now_ms: int) -> None:
        self._left = CLAIMED_RISE_MAX
        self._at_ms = now_ms

    def admits_request(self, own_epoch: int, claimed_epoch: int, now_ms: int) -> bool:
        """Whether a request may name `claimed_epoch`. Epochs up to our own always may."""
        self._refill(now_ms)
        return claimed_epoch <= min(own_epoch + max(self._left, 0), EPOCH_MAX - 1) or claimed_epoch <= own_epoch

    def admits_answer(self, own_epoch: int, answered_epoch: int, now_ms: int) -> bool:
        """Whether an answer may name `answered_epoch`."""
        return answered_epoch <= ANSWERED_EPOCH_MAX or self.admits_request(own_epoch, answered_epoch, now_ms)

    def spend(self, rise: int) -> None:
        """A request has raised our epoch by `rise`."""
        assert 0 <= rise <= self._left, f"a rise of {rise} epochs, with {self._left} left"
        self._left -= rise

    def _refill(self, now_ms: int) -> None:
        earned = (now_ms - self._at_ms) * CLAIMED_RISE_PER_S // 1000
        if earned > 0:
            self._left = min(self._left + earned, CLAIMED_RISE_MAX)
            self._at_ms += earned * 1000 // CLAIMED_RISE_PER_S
