"""What the active controller remembers of its brokers' heartbeats. None of it is in the log: a new active controller
starts afresh.

A session belongs to an incarnation, named by broker id and epoch. A broker that was fenced before its session ran
out, because its death was proven, is held until it would have: so long, nobody may be elected in its place who might
lack its records.

Whatever is proven of a broker, its last contact stays known until its fence, or its successor, is in the log: a
fence that could not be written is written when the session ends, or as soon after that as can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

REFUSED_MAX: Final = 100
"""How many refused brokers are remembered."""


class BrokerIdAndEpoch(NamedTuple):
    id: int
    epoch: int


class BrokerHeartbeatManager:
    """Owned by the active controller. Times are seconds of `now`."""

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
        self._gone: set[BrokerIdAndEpoch] = set()  # Of those, whose session keeps no successor out.
        self._metadata_offsets: dict[int, int] = {}
        self._controlled_shutdown_offsets: dict[int, int] = {}
        self._held: dict[int, float] = {}
        self._speaking: dict[int, int] = {}
        self._refused: dict[int, tuple[float, float]] = {}  # When the first and the last heartbeat was refused.

    def contact(self, broker_id: int, broker_epoch: int) -> None:
        """A heartbeat came in, whatever will be made of it."""
        self.presume(broker_id, broker_epoch)
        self._speaking[broker_id] = broker_epoch

    def presume(self, broker_id: int, broker_epoch: int) -> None:
        """A former controller knew the broker to live: its session begins, although it has not spoken to us."""
        key = BrokerIdAndEpoch(broker_id, broker_epoch)
        self._contacts[key] = self._now()
        self._gone.discard(key)

    def refuse(self, broker_id: int) -> None:
        """A heartbeat named a registration that is no more."""
        now = self._now()
        first, last = self._refused.get(broker_id, (now, now))
        if now - last > self._session_seconds:
            first = now
        if broker_id in self._refused or len(self._refused) < REFUSED_MAX:
            self._refused[broker_id] = (first, now)

    def refused_brokers(self) -> list[int]:
        """Ids of processes that go on sending heartbeats of a registration that is no more: a broker that was
        unregistered while it ran, or one whose id another process has taken. A process that has just been replaced
        may be late once; that does not count."""
        now, session = self._now(), self._session_seconds
        return sorted(
            broker_id
            for broker_id, (first, last) in self._refused.items()
            if now - last <= session and last - first >= session / 2
        )

    def connection_ended(self, broker_id: int) -> None:
        """The connection that the broker's heartbeats came by is no more."""
        self._speaking.pop(broker_id, None)

    def is_speaking(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether heartbeats of that incarnation came in by a connection that has not ended."""
        return self._speaking.get(broker_id) == broker_epoch

    def last_contact(self, broker_id: int, broker_epoch: int) -> float | None:
        return self._contacts.get(BrokerIdAndEpoch(broker_id, broker_epoch))

    def session_is_valid(self, broker_id: int, broker_epoch: int) -> bool:
        key = BrokerIdAndEpoch(broker_id, broker_epoch)
        contact = self._contacts.get(key)
        return contact is not None and key not in self._gone and contact + self._session_seconds >= self._now()

    def expired(self) -> BrokerIdAndEpoch | None:
        """One incarnation whose session ran out, longest silent first. `fenced` forgets it."""
        deadline = self._now() - self._session_seconds
        late = [(contact, key) for key, contact in self._contacts.items() if contact < deadline]
        if not late:
            return None
        return min(late)[1]

    def fenced(self, key: BrokerIdAndEpoch) -> None:
        """The fence of an incarnation is in the log, or it needs none. Its session is forgotten if it is over: the
        broker may have spoken since."""
        contact = self._contacts.get(key)
        if contact is not None and contact < self._now() - self._session_seconds:
            self._drop(key)

    def _drop(self, key: BrokerIdAndEpoch) -> None:
        self._contacts.pop(key, None)
        self._gone.discard(key)

    def replaced(self, broker_id: int) -> None:
        """A new incarnation is in the log. A hold stays until it is unfenced: until then nobody knows better than
        its predecessor's session."""
        for key in [key for key in self._contacts if key.id == broker_id]:
            self._drop(key)
        self._metadata_offsets.pop(broker_id, None)
        self._controlled_shutdown_offsets.pop(broker_id, None)
        self._speaking.pop(broker_id, None)

    def left(self, broker_id: int, broker_epoch: int) -> None:
        """The broker was told that it may stop: it does nothing more, so its session keeps no successor out."""
        key = BrokerIdAndEpoch(broker_id, broker_epoch)
        if key in self._contacts:
            self._gone.add(key)

    def forget(self, broker_id: int) -> None:
        """The broker is unregistered."""
        self.replaced(broker_id)
        self._held.pop(broker_id, None)

    def touch(self, broker_id: int, *, fenced: bool, metadata_offset: int) -> None:
        """What a heartbeat told. A fenced broker is no longer in controlled shutdown; an unfenced one is held no
        longer."""
        self._metadata_offsets[broker_id] = metadata_offset
        if fenced:
            self._controlled_shutdown_offsets.pop(broker_id, None)
        else:
            self._held.pop(broker_id, None)

    def metadata_offset(self, broker_id: int) -> int:
        return self._metadata_offsets.get(broker_id, -1)

    def controlled_shutdown_offset(self, broker_id: int) -> int | None:
        """Offset at which the broker's controlled shutdown was last decided upon for the first time; None when it is
        not in one."""
        return self._controlled_shutdown_offsets.get(broker_id)

    def enter_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        self._controlled_shutdown_offsets.setdefault(broker_id, offset)

    def lowest_active_offset(self, active: list[int]) -> float:
        """The metadata offset of the active broker that is furthest behind; infinity when no other broker is active."""
        offsets = [
            self.metadata_offset(broker_id)
            for broker_id in active
            if broker_id not in self._controlled_shutdown_offsets
        ]
        return min(offsets, default=math.inf)

    def hold(self, broker_id: int, broker_epoch: int) -> None:
        """The broker is fenced although its session lasts. Its death is proven, so the session no longer keeps a
        successor out."""
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
        """Brokers whose hold ran out. `release_holds` drops it."""
        now = self._now()
        return frozenset(broker_id for broker_id, deadline in self._held.items() if deadline < now)

    def release_holds(self, brokers: frozenset[int]) -> None:
        """The elections that waited for these holds are in the log. One that was renewed meanwhile stays."""
        for broker_id in sorted(brokers & self.holds_over()):
            del self._held[broker_id]
