"""Recent events of the cluster, as this node saw them: a bounded list that readers can page through and wait on.

It is not durable: it is held in memory, keeps the last `EVENTS_MAX` events, and is empty after a restart. Ids ascend by
one and start at the wall clock (microseconds). So a reader with an id from before a restart learns that events are
missing, and never gets a different event under the same id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

import trio

from kraft.world.ports import Clock

EVENTS_MAX: Final = 4_096
READ_MAX: Final = 512
"""Limit of events in one response of `since`."""


class EventKind:
    """The kinds of events, with the fields of each. Offsets that are called an end are exclusive."""

    LEADER_CHANGED: Final = "leader.changed"  # topic, partition, leader (-1: none), leader_epoch, former_leader, isr
    ISR_SHRUNK: Final = "isr.shrunk"  # topic, partition, isr, former_isr, leader, leader_epoch
    ISR_EXPANDED: Final = "isr.expanded"  # As isr.shrunk.
    BROKER_REGISTERED: Final = "broker.registered"  # broker, epoch
    BROKER_UNREGISTERED: Final = "broker.unregistered"  # broker, epoch
    BROKER_FENCED: Final = "broker.fenced"  # broker, epoch
    BROKER_UNFENCED: Final = "broker.unfenced"  # broker, epoch
    BROKER_SHUTTING_DOWN: Final = "broker.shutting_down"  # broker, epoch
    CONTROLLER_CHANGED: Final = "controller.changed"  # controller (-1: none known), epoch
    DIRECTORY_OFFLINE: Final = "directory.offline"  # broker, directory (its id, as text)
    TOPIC_CREATED: Final = "topic.created"  # topic, topic_id, partitions
    TOPIC_DELETED: Final = "topic.deleted"  # topic, topic_id
    # topic, partition, leader, leader_epoch, former_leader, former_epoch, former_isr, former_elr: on every node
    UNCLEAN_ELECTION: Final = "election.unclean"
    # As election.unclean, with strategy, last_known, last_epoch, end_offset, ends, silent: active controller
    UNCLEAN_RECOVERY: Final = "election.recovery"
    # topic, partition, strategy, members, awaited, since_ms, until_ms (None: no bound), ends, candidate (-1: none),
    # command: active controller
    ELECTION_WAITING: Final = "election.waiting"
    # principal, host, operation, resource_type, resource_name, untold: on the node that was asked
    ACCESS_DENIED: Final = "access.denied"
    # principal, host, acl_principal, acl_host, permission, operation, resource_type, pattern_type, resource_name:
    # active controller
    ACL_ADDED: Final = "acl.added"
    ACL_REMOVED: Final = "acl.removed"
    # principal, host, resource_type, resource_name, key, change (set, delete, append, subtract, replace), value (None:
    # deleted, or a secret): active controller
    CONFIG_CHANGED: Final = "config.changed"
    # principal, host, entity, key, change (set, delete), value: active controller
    QUOTA_CHANGED: Final = "quota.changed"
    # principal, host, user, mechanism, change (set, delete): active controller
    CREDENTIAL_CHANGED: Final = "credential.changed"
    # principal, host, token_id, change (created, renewed, expiry set, removed), expires_ms: active controller
    TOKEN_CHANGED: Final = "token.changed"
    # listener, mechanism, host, user (claimed), failure (credentials, mechanism, request, tls, principal), reason,
    # untold: on the node that was asked
    LOGIN_FAILED: Final = "login.failed"
    # listener, quota (its key), principal and client_id (empty where a connection came too early), host, wait_ms, waits
    # (of this client, since it was told), untold: on the node whose quota it is
    CLIENT_THROTTLED: Final = "client.throttled"
    # topic, partition, replica, leader, leader_epoch, start_offset, end_offset, high_watermark: on its node
    REPLICA_TRUNCATED: Final = "replica.truncated"


class Event(NamedTuple):
    """One event. `time_ms` is this node's wall clock when it noticed the event; `fields` are JSON values: text,
    numbers, and lists of them."""

    id: int
    time_ms: int
    kind: str
    fields: Mapping[str, Any]


class Events(NamedTuple):
    """The result of `EventJournal.since`. `missed`: some events after the requested id are no longer in the journal."""

    events: tuple[Event, ...]
    missed: bool


class EventJournal:
    """The journal of one node, owned by its loop. `append` and `since` never wait."""

    def __init__(self, clock: Clock, *, events_max: int = EVENTS_MAX) -> None:
        self._clock = clock
        self._events: deque[Event] = deque(maxlen=events_max)
        self._next_id = clock.wall_ms() * 1000
        self._news = trio.Event()
        self.counts: dict[str, int] = {}
        """Number of events since the start, by kind."""

    @property
    def last_id(self) -> int:
        """The id of the newest event; before the first, the id below its own. Pass it to `since` or `wait` for future
        events only."""
        return self._next_id - 1

    def append(self, kind: str, **fields: Any) -> Event:
        """Add an event, dropping the oldest if the journal is full. Wakes waiting readers."""
        event = Event(self._next_id, self._clock.wall_ms(), kind, fields)
        self._next_id += 1
        self._events.append(event)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self._news.statistics().tasks_waiting:
            self._news.set()
            self._news = trio.Event()
        return event

    def since(self, after_id: int = -1, events_max: int = READ_MAX) -> Events:
        """The events after `after_id`, oldest first, at most `events_max`; with -1 from the oldest. Continue with the
        id of the last one."""
        if not self._events:
            return Events((), after_id not in (-1, self.last_id))
        first = self._events[0].id
        known = after_id == -1 or first - 1 <= after_id < self._next_id
        start = after_id + 1 - first if known and after_id != -1 else 0
        return Events(tuple(islice(self._events, start, start + events_max)), not known)

    def newest(self, count: int) -> Events:
        """The last `count` events, oldest first."""
        return Events(tuple(islice(self._events, max(0, len(self._events) - count), None)), False)

    async def wait(self, after_id: int) -> None:
        """Return once there is an event after `after_id`; immediately if there is one, or if this journal never
        assigned that id."""
        while after_id == self.last_id:
            await self._news.wait()
        await trio.lowlevel.checkpoint()
