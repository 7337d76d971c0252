"""Completes reports of unclean elections (`kraft.common.loss_reports`): what replicas of this broker had and gave up
is told to the active controller.

`untold_cuts` decides. A cut that may count is in a file of its log directory before it is made, and leaves that file
when the controller has it, or refused it for good: whenever the process ends, the next one tells what is left. Told
twice is told once: the controller's loss is the union of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from kraft.common.config.alterations import Operation
from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import ApiError
from kraft.common.loss_reports import Cut, Loss, text_of
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.replication.following import Truncation
from kraft.replication.partition import Partition
from kraft.server.cut_files import CutFiles
from kraft.server.untold_cuts import Entry, UntoldCuts
from kraft.world.ports import Clock

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.server.node_to_controller_channel import NodeToControllerChannel

RETRY_SECONDS: Final = 1.0
PASSES: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)
"""What may be over at the next try; for anything else the report is gone: dismissed, or its topic deleted."""


class LossTeller:
    """Owned by the broker's loop."""

    def __init__(
        self,
        replica_id: int,
        image: Callable[[], MetadataImage],
        channel: NodeToControllerChannel,
        files: CutFiles,
        clock: Clock,
        log: Logger,
    ) -> None:
        self._image = image
        self._channel = channel
        self._files = files
        self._clock = clock
        self._log = log
        self._cuts = UntoldCuts(replica_id)
        self._outdated: dict[str, None] = {}
        """Log directories whose file tells of more than there is to tell."""
        self._woken = trio.Event()

    def recall(self) -> None:
        """What the last run did not get round to telling. Before any log is cut."""
        for directory, cut in self._files.read():
            self._cuts.note(directory, cut)
        if self._cuts:
            self._log.info("cuts of the last run to be told", cuts=len(self._cuts))
            self._woken.set()

    def truncating(self, partition: Partition, truncation: Truncation) -> None:
        """A replica is about to give something up; if that may count, it is durable when this returns. Raises
        StorageError."""
        loss = Loss(
            truncation.start_offset,
            truncation.end_offset,
            truncation.high_watermark,
            partition.leader_epoch,
            self._clock.wall_ms(),
        )
        cut = Cut(partition.topic, partition.topic_id, partition.index, truncation.first_epoch, loss)
        if self._cuts.may_count(self._image(), cut):
            directory = self._files.directory_of(partition)
            self._cuts.note(directory, cut)
            self._files.write_now(directory, self._cuts.of(directory))
            self._woken.set()

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            while self._cuts or self._outdated:
                if not await self._go_on():
                    await self._clock.sleep(RETRY_SECONDS)

    async def _go_on(self) -> bool:
        """Tell some, and bring the files in line. False where it is of no use to go on at once."""
        image = self._image()
        self._outdate(self._cuts.look(image, self._files.is_made))
        telling = self._cuts.telling(image)
        settled = [*telling.moot, *(await self._tell(telling.losses, telling.told) if telling.told else ())]
        self._cuts.settled(settled)
        self._outdate(settled)
        for directory in list(self._outdated):
            if await self._files.write(directory, self._cuts.of(directory)):
                self._outdated.pop(directory, None)
        return bool(settled)

    def _outdate(self, entries: Iterable[Entry]) -> None:
        self._outdated.update(dict.fromkeys(entry.directory for entry in entries))

    async def _tell(self, losses: dict[str, dict[str, Loss]], entries: Sequence[Entry]) -> list[Entry]:
        """Those that need not be told again."""
        try:
            response = await self._channel.send(_request(losses))
        except ApiError as problem:
            self._log.info("losses not told yet", losses=len(entries), reason=str(problem))
            return []
        again = {result.resource_name for result in response.responses if result.error_code in PASSES}
        return [entry for entry in entries if entry.cut.topic not in again]


def _request(losses: dict[str, dict[str, Loss]]) -> Any:
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name=topic,
                configs=[
                    AlterableConfig(name=name, config_operation=Operation.SET, value=text_of(loss))
                    for name, loss in of_topic.items()
                ],
            )
            for topic, of_topic in losses.items()
        ]
    )
