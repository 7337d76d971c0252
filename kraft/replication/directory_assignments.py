"""Telling the controller in which log directory each replica lives (AssignReplicasToDirs, KIP-858): one request at a
time, with all that has come up meanwhile.

The controller needs it to know which replicas a failed directory takes along. A replica on a directory that is lost
is assigned to LOST.
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
"""As many as Kafka's controller takes at once."""
RETRY_SECONDS: Final = 0.1
WORK: Final = "assignments of replicas to log directories"

Key = tuple[bytes, int]
"""Topic id and partition index."""


class Channel(Protocol):
    async def send(self, request: Any, *, timeout: float | None = None) -> Any: ...


class DirectoryAssignments:
    """Owned by the broker's loop. What is wanted of a replica later replaces what was wanted before."""

    def __init__(
        self, broker_id: int, clock: Clock, is_here: Callable[[Key], bool], set_aside: Quarantine, log: Logger
    ) -> None:
        """`is_here(key)`: whether the metadata still gives this broker a replica of the partition."""
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
        """Replicas of which the controller has yet to hear."""
        return len(self._wanted)

    def assign(self, key: Key, directory_id: bytes) -> trio.Event:
        """Tell the controller that the replica is in this directory. The event is set when the controller knows."""
        if self._wanted.get(key) == directory_id:
            return self._told[key]
        self._wanted[key] = directory_id
        self._told[key] = trio.Event()
        self._woken.set()
        return self._told[key]

    def _not_assigned(self, partitions: int, reason: str) -> bool:
        """There is to be a pause before the next request: False."""
        self._refusals.warning("directories not assigned", reason, partitions=partitions, reason=reason)
        return False

    def is_pending(self, key: Key) -> bool:
        """Whether the controller has yet to hear of it."""
        return key in self._wanted

    def confirmed(self, key: Key) -> None:
        """The metadata says what was wanted."""
        if self._wanted.pop(key, None) is not None:
            self._told.pop(key).set()

    async def run(self, channel: Channel, broker_epoch: Callable[[], int]) -> None:
        """Tell the controller until cancelled."""
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
        """Send one request. False when there is to be a pause before the next."""
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
