"""The active controller's state of its brokers' heartbeats. It is not in the log: a new active controller starts with
none.

A session belongs to an incarnation, named by broker id and epoch. A broker fenced before its session timed out, because
its death was proven, is held until that time. While it is held, no replica that may lack its records is elected in its
place.

A broker's last contact is kept until its fence, or the registration of its next incarnation, is in the log. So a fence
that could not be written is written when the session ends, or as soon after that as possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

REFUSED_MAX: Final = 100
"""Limit of brokers with refused heartbeats that are kept."""


class BrokerIdAndEpoch(NamedTuple):
    id: int
    epoch: int


class BrokerHeartbeatManager:
    """Sessions and holds of the brokers. Owned by the active controller. Times are seconds of `now`."""

    __slots__ = (
        "_contacts",
        "_controlled_shutdown_offsets",
        "_gone",
        "_held",
        "_metadata_offsets",
        "_now",
        "_refused",
        "_session_seconds",
        "_speaking",
    )

    def __init__(self, now: Callable[[], float], session_timeout_ms: int) -> None:
        self._now = now
        self._session_seconds = session_timeout_ms / 1000
        self._contacts: dict[BrokerIdAndEpoch, float] = {}
        self._gone: set[BrokerIdAndEpoch] = (
            set()
        )  # Incarnations in _contacts whose session does not prevent a new incarnation from registering.
        self._metadata_offsets: dict[int, int] = {}
        self._controlled_shutdown_offsets: dict[int, int] = {}
        self._held: dict[int, float] = {}
        self._speaking: dict[int, int] = {}
        self._refused: dict[int, tuple[float, float]] = {}  # Times of the first and last refused heartbeat.

    def contact(self, broker_id: int, broker_epoch: int) -> None:
        """Record that a heartbeat arrived, whatever its response."""
        self.presume(broker_id, broker_epoch)
        self._speaking[broker_id] = broker_epoch

    def presume(self, broker_id: int, broker_epoch: int) -> None:
        """Start a session for a broker that was unfenced under the previous active controller, although it has sent no
        heartbeat to this one."""
        key = BrokerIdAndEpoch(broker_id, broker_epoch)
        self._contacts[key] = self._now()
        self._gone.discard(key)

    def refuse(self, broker_id: int) -> None:
        """Record a heartbeat of an outdated registration."""
        now = self._now()
        first, last = self._refused.get(broker_id, (now, now))
        if now - last > self._session_seconds:
            first = now
        if broker_id in self._refused or len(self._refused) < REFUSED_MAX:
            self._refused[broker_id] = (first, now)

    def refused_brokers(self) -> list[int]:
        """Return the ids of processes that keep sending heartbeats of an outdated registration: the broker was
        unregistered while it ran, or another process registered with its id.

        A process that has just been replaced may send one late heartbeat. It is not included.
        """
        now, session = self._now(), self._session_seconds
        return sorted(
            broker_id
            for broker_id, (first, last) in self._refused.items()
            if now - last <= session and last - first >= session / 2
        )

    def connection_ended(self, broker_id: int) -> None:
        """Record that the connection of the broker's heartbeats has ended."""
        self._speaking.pop(broker_id, None)

    def is_speaking(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the connection of that incarnation's last heartbeat is still open."""
        return self._speaking.get(broker_id) == broker_epoch

    def last_contact(self, broker_id: int, broker_epoch: int) -> float | None:
        return self._contacts.get(BrokerIdAndEpoch(broker_id, broker_epoch))

    def session_is_valid(self, broker_id: int, broker_epoch: int) -> bool:
        key = BrokerIdAndEpoch(broker_id, broker_epoch)
        contact = self._contacts.get(key)
        return contact is not None and key not in self._gone and contact + self._session_seconds >= self._now()

    def expired(self) -> BrokerIdAndEpoch | None:
        """Return one incarnation whose session has timed out, the longest silent first. `fenced` removes it."""
        deadline = self._now() - self._session_seconds
        late = [(contact, key) for key, contact in self._contacts.items() if contact < deadline]
        if not late:
            return None
        return min(late)[1]

    def fenced(self, key: BrokerIdAndEpoch) -> None:
        """Record that the fence of an incarnation is in the log, or is not needed. Its session is removed only if it is
        still timed out, because the broker may have sent a heartbeat since."""
        contact = self._contacts.get(key)
        if contact is not None and contact < self._now() - self._session_seconds:
            self._drop(key)

    def _drop(self, key: BrokerIdAndEpoch) -> None:
        self._contacts.pop(key, None)
        self._gone.discard(key)

    def replaced(self, broker_id: int) -> None:
        """Record that a new incarnation is in the log. A hold stays until the new incarnation is unfenced, because its
        predecessor's session still determines when its records may be given up."""
        for key in [key for key in self._contacts if key.id == broker_id]:
            self._drop(key)
        self._metadata_offsets.pop(broker_id, None)
        self._controlled_shutdown_offsets.pop(broker_id, None)
        self._speaking.pop(broker_id, None)

    def left(self, broker_id: int, broker_epoch: int) -> None:
        """Record that the broker was allowed to stop. It does nothing more, so its session no longer prevents a new
        incarnation from registering."""
        key = BrokerIdAndEpoch(broker_id, broker_epoch)
        if key in self._contacts:
            self._gone.add(key)

    def forget(self, broker_id: int) -> None:
        """Remove an unregistered broker."""
        self.replaced(broker_id)
        self._held.pop(broker_id, None)

    def touch(self, broker_id: int, *, fenced: bool, metadata_offset: int) -> None:
        """Record the result of a heartbeat. A fenced broker is no longer in controlled shutdown. An unfenced broker is
        no longer held."""
        self._metadata_offsets[broker_id] = metadata_offset
        if fenced:
            self._controlled_shutdown_offsets.pop(broker_id, None)
        else:
            self._held.pop(broker_id, None)

    def metadata_offset(self, broker_id: int) -> int:
        return self._metadata_offsets.get(broker_id, -1)

    def controlled_shutdown_offset(self, broker_id: int) -> int | None:
        """The offset at which the broker entered its current controlled shutdown; None if it is not in one."""
        return self._controlled_shutdown_offsets.get(broker_id)

    def enter_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        self._controlled_shutdown_offsets.setdefault(broker_id, offset)

    def lowest_active_offset(self, active: list[int]) -> float:
        """Return the lowest metadata offset of the active brokers that are not in controlled shutdown; infinity if
        there is none."""
        offsets = [
            self.metadata_offset(broker_id)
            for broker_id in active
            if broker_id not in self._controlled_shutdown_offsets
        ]
        return min(offsets, default=math.inf)

    def hold(self, broker_id: int, broker_epoch: int) -> None:
        """Hold a broker that is fenced before its session ends. Its death is proven, so the session no longer prevents
        a new incarnation from registering."""
        key = BrokerIdAndEpoch(broker_id, broker_epoch)
        contact = self._contacts.setdefault(key, self._now())
        self._gone.add(key)
        self._held[broker_id] = contact + self._session_seconds

    def hold_until(self, broker_id: int, deadline: float) -> None:
        self._held[broker_id] = deadline

    @property
    def held(self) -> frozenset[int]:
        return frozenset(self._held)

    def holds_over(self) -> frozenset[int]:
        """Return the brokers whose hold has ended. `release_holds` removes them."""
        now = self._now()
        return frozenset(broker_id for broker_id, deadline in self._held.items() if deadline < now)

    def release_holds(self, brokers: frozenset[int]) -> None:
        """Remove holds that have ended, once the elections that waited for them are in the log. A hold renewed
        meanwhile stays."""
        for broker_id in sorted(brokers & self.holds_over()):
            del self._held[broker_id]
