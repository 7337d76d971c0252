"""Share sessions (KIP-932): the partitions that each member of a share group fetches from this broker.

The first request of a session has epoch 0 and lists its partitions. Each later request has the session's epoch and
lists only changes; then the epoch rises by one. A request with epoch -1 ends the session. A session belongs to the
connection of its first request, and ends with that connection. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 0x7FFFFFFF

Place = tuple[bytes, int]
"""A topic id and a partition."""


class SessionKey(NamedTuple):
    """A member of a group."""

    group_id: str
    member_id: str


class ShareSession:
    """One session. `epoch` is that of the next request. `partitions` are in the order in which they are served.
    Partitions that returned records move to the end, so that every partition is served in turn. After `is_over` no
    request of the session may acquire records, because no later event would release them."""

    __slots__ = ("connection", "epoch", "is_over", "partitions")

    def __init__(self, connection: object, partitions: Iterable[Place]) -> None:
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1
        self.is_over = False
        self.partitions: dict[Place, None] = dict.fromkeys(partitions)

    def served(self, places: Iterable[Place]) -> None:
        """Move partitions that had records to the end."""
        for place in places:
            if place in self.partitions:
                del self.partitions[place]
                self.partitions[place] = None


class ShareSessions:
    """The sessions of a broker, at most `sessions_max`."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[object, set[SessionKey]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def partition_count(self) -> int:
        """The number of partitions over all sessions."""
        return sum(len(each.partitions) for each in self._sessions.values())  # unordered: summed

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        partitions: Iterable[Place],
        forgotten: Iterable[Place],
        *,
        acknowledges: bool,
        connection: object,
    ) -> ShareSession | None:
        """Return the session of a ShareFetch, created or continued. Returns None for the final epoch; the caller then
        calls `end`.

        Raises ApiError: INVALID_REQUEST for acknowledgements in the first request of a session,
        SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED.
        """
        if epoch == INITIAL_EPOCH:
            if acknowledges:
                raise ApiError(ErrorCode.INVALID_REQUEST, "the first request of a share session acknowledges records")
            return self._begin(key, partitions, connection)
        session = self._require(key)
        if epoch == FINAL_EPOCH:
            return None
        self._advance(session, epoch)
        for place in partitions:
            session.partitions.setdefault(place)
        for place in forgotten:
            session.partitions.pop(place, None)
        return session

    def acknowledge(self, key: SessionKey, epoch: int) -> None:
        """Check the epoch of a ShareAcknowledge, and raise the session's epoch. After the final epoch the caller calls
        `end`. Raises ApiError(SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH)."""
        if epoch == INITIAL_EPOCH:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "an acknowledgement cannot begin a share session")
        session = self._require(key)
        if epoch != FINAL_EPOCH:
            self._advance(session, epoch)

    def end(self, key: SessionKey) -> bool:
        """End a session. Returns whether there was one: then the caller releases the records that its member holds."""
        session = self._sessions.pop(key, None)
        if session is not None:
            session.is_over = True
            keys = self._by_connection[session.connection]
            keys.discard(key)
            if not keys:
                del self._by_connection[session.connection]
        return session is not None

    def connection_ended(self, connection: object) -> list[SessionKey]:
        """End the sessions of a connection, and return their members."""
        keys = sorted(self._by_connection.get(connection, ()))
        for key in keys:
            self.end(key)
        return keys

    def has(self, group_id: str, place: Place) -> bool:
        """Whether a member of the group has a session with the partition."""
        return any(key.group_id == group_id and place in each.partitions for key, each in self._sessions.items())

    def clear(self) -> None:
        """End all sessions."""
        for key in list(self._sessions):
            self.end(key)

    def _begin(self, key: SessionKey, partitions: Iterable[Place], connection: object) -> ShareSession:
        self.end(key)
        if len(self._sessions) >= self._sessions_max:
            raise ApiError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"the broker has {self._sessions_max} share sessions (group.share.max.share.sessions)",
            )
        session = self._sessions[key] = ShareSession(connection, partitions)
        self._by_connection.setdefault(connection, set()).add(key)
        return session

    def _require(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(
                ErrorCode.SHARE_SESSION_NOT_FOUND, f"{key.member_id} of {key.group_id} has no share session here"
            )
        return session

    def _advance(self, session: ShareSession, epoch: int) -> None:
        if epoch != session.epoch:
            raise ApiError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"the share session is in epoch {session.epoch}, the request has {epoch}",
            )
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
