"""Reports to the controller the log directory of each replica (AssignReplicasToDirs, KIP-858).

One request is in flight at a time. The next request carries all changes that were queued meanwhile.

The controller uses the assignments to know which replicas go offline with a failed directory. A replica on a lost
directory is assigned to LOST.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from kraft.common.backed_off_log import BackedOffLog
from kraft.common.errors import ApiError
from kraft.common.quarantine import Quarantine
from kraft.protocol.error_codes import name_of
from kraft.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kraft.world.ports import Clock

if TYPE_CHECKING:
    from kraft.common.logging import Logger

PARTITIONS_PER_REQUEST: Final = 2_250
"""Kafka's limit of assignments in one AssignReplicasToDirs request."""
RETRY_SECONDS: Final = 0.1
WORK: Final = "assignments of replicas to log directories"

Key = tuple[bytes, int]
"""Topic id and partition index."""


class Channel(Protocol):
    async def send(self, request: Any, *, timeout: float | None = None) -> Any: ...


class DirectoryAssignments:
    """The assignments still to be sent. A later assignment of a replica replaces an earlier one. Owned by the broker's
    loop."""

    def __init__(
        self, broker_id: int, clock: Clock, is_here: Callable[[Key], bool], set_aside: Quarantine, log: Logger
    ) -> None:
        """`is_here(key)`: whether the metadata still assigns this broker a replica of the partition."""
        self._broker_id = broker_id
        self._clock = clock
        self._is_here = is_here
        self._set_aside = set_aside
        self._log = log
        self._refusals = BackedOffLog(log, clock)
        self._wanted: dict[Key, bytes] = {}
        self._told: dict[Key, trio.Event] = {}
        self._woken = trio.Event()

    def __len__(self) -> int:
        """The number of replicas whose assignment the controller has not confirmed."""
        return len(self._wanted)

    def assign(self, key: Key, directory_id: bytes) -> trio.Event:
        """Queue the report that the replica is in this directory. The returned event is set when the controller has
        confirmed it."""
        if self._wanted.get(key) == directory_id:
            return self._told[key]
        self._wanted[key] = directory_id
        self._told[key] = trio.Event()
        self._woken.set()
        return self._told[key]

    def _not_assigned(self, partitions: int, reason: str) -> bool:
        """Log the refusal. Returns False: the next request waits for the back-off."""
        self._refusals.warning("directories not assigned", reason, partitions=partitions, reason=reason)
        return False

    def is_pending(self, key: Key) -> bool:
        """Whether the replica's assignment is still unconfirmed."""
        return key in self._wanted

    def confirmed(self, key: Key) -> None:
        """Remove the assignment: the metadata now agrees with it."""
        if self._wanted.pop(key, None) is not None:
            self._told.pop(key).set()

    async def run(self, channel: Channel, broker_epoch: Callable[[], int]) -> None:
        """Send the queued assignments until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            while self._wanted:
                is_done = False
                with self._set_aside.guard(WORK, "requests to the controller"):
                    is_done = await self._send_some(channel, broker_epoch())
                if not is_done:
                    await self._clock.sleep(RETRY_SECONDS)

    async def _send_some(self, channel: Channel, broker_epoch: int) -> bool:
        """Send one request. Returns False if the next request should wait for the back-off."""
        for key in [key for key in self._wanted if not self._is_here(key)]:
            self.confirmed(key)
        sent = dict(list(self._wanted.items())[:PARTITIONS_PER_REQUEST])
        if not sent:
            return True
        try:
            response = await channel.send(self._request(sent, broker_epoch))
        except ApiError as problem:
            return self._not_assigned(len(sent), str(problem))
        if response.error_code:
            return self._not_assigned(len(sent), name_of(response.error_code))
        done = 0
        for directory in response.directories:
            for topic in directory.topics:
                for told in topic.partitions:
                    done += self._take(
                        (bytes(topic.topic_id), told.partition_index), bytes(directory.id), told.error_code
                    )
        self._log.info("directories assigned", partitions=done)
        return done == len(sent)

    def _request(self, sent: dict[Key, bytes], broker_epoch: int) -> AssignReplicasToDirsRequest:
        directories: dict[bytes, dict[bytes, list[PartitionData]]] = {}
        for (topic_id, index), directory_id in sent.items():
            directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(
                PartitionData(partition_index=index)
            )
        data = [
            DirectoryData(
                id=directory_id,
                topics=[TopicData(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
            )
            for directory_id, topics in directories.items()
        ]
        return AssignReplicasToDirsRequest(broker_id=self._broker_id, broker_epoch=broker_epoch, directories=data)

    def _take(self, key: Key, directory_id: bytes, code: int) -> bool:
        if code:
            self._log.info("directory refused", partition=key[1], code=name_of(code))
            return False
        if self._wanted.get(key) == directory_id:
            self.confirmed(key)
        return True
