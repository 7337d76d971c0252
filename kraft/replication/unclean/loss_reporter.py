"""Completes reports of unclean elections (`kraft.common.config.dynamic.loss_reports`) with the records that replicas of
this broker lost. The losses are reported to the active controller.

`unreported_losses` makes the decisions. A loss that may count is written to a file of its log directory before the log
is truncated. It is removed from the file once the controller has it, or has refused it permanently. So after a crash
the next run reports the remaining losses. Reporting a loss twice does no harm: the controller keeps the union of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from kraft.common.config.dynamic.alterations import Operation
from kraft.common.config.dynamic.loss_reports import Loss, UnreportedLoss, text_of
from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import ApiError
from kraft.common.quarantine import Quarantine
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.replication.alter_partition_manager import Channel
from kraft.replication.fetchers.following import Truncation
from kraft.replication.partition import Partition
from kraft.replication.unclean.unreported_loss_files import UnreportedLossFiles
from kraft.replication.unclean.unreported_losses import Entry, UnreportedLosses
from kraft.world.ports import Clock

if TYPE_CHECKING:
    from kraft.common.logging import Logger

RETRY_SECONDS: Final = 1.0
WORK: Final = "losses of unclean elections"
PASSES: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)
"""Errors to retry. Any other error means that the report is gone: dismissed, or its topic deleted."""


class LossReporter:
    """Reports the losses of one broker. Owned by the broker's loop."""

    def __init__(
        self,
        replica_id: int,
        image: Callable[[], MetadataImage],
        channel: Channel,
        files: UnreportedLossFiles,
        clock: Clock,
        set_aside: Quarantine,
        log: Logger,
    ) -> None:
        self._image = image
        self._channel = channel
        self._files = files
        self._clock = clock
        self._set_aside = set_aside
        self._log = log
        self._untold = UnreportedLosses(replica_id)
        self._outdated: dict[str, None] = {}
        """Log directories whose file still contains losses that are reported or dropped."""
        self._woken = trio.Event()

    def recall(self) -> None:
        """Read the losses that the last run did not report. Called before any log is truncated."""
        for directory, untold in self._files.read():
            self._untold.note(directory, untold)
        if self._untold:
            self._log.info("unreported losses of the last run found", losses=len(self._untold))
            self._woken.set()

    def truncating(self, partition: Partition, truncation: Truncation) -> None:
        """Record the loss durably before a replica is truncated, if the loss may count. Raises StorageError."""
        loss = Loss(
            truncation.start_offset,
            truncation.end_offset,
            truncation.high_watermark,
            partition.leader_epoch,
            self._clock.wall_ms(),
        )
        untold = UnreportedLoss(partition.topic, partition.topic_id, partition.index, truncation.first_epoch, loss)
        if self._untold.may_count(self._image(), untold):
            directory = self._files.directory_of(partition)
            self._untold.note(directory, untold)
            self._files.write_now(directory, self._untold.of(directory))
            self._woken.set()

    async def run(self) -> None:
        """Report losses until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            while self._untold or self._outdated:
                is_done = False
                with self._set_aside.guard(WORK, "telling the controller"):
                    is_done = await self._go_on()
                if not is_done:
                    await self._clock.sleep(RETRY_SECONDS)

    async def _go_on(self) -> bool:
        """Report some losses, and update the files. Returns False if the next request should wait for the back-off."""
        image = self._image()
        self._outdate(self._untold.look(image, self._files.has_happened))
        telling = self._untold.telling(image)
        finished = [*telling.dropped, *(await self._tell(telling.losses, telling.told) if telling.told else ())]
        self._untold.forget(finished)
        self._outdate(finished)
        for directory in list(self._outdated):
            if await self._files.write(directory, self._untold.of(directory)):
                self._outdated.pop(directory, None)
        return bool(finished)

    def _outdate(self, entries: Iterable[Entry]) -> None:
        self._outdated.update(dict.fromkeys(entry.directory for entry in entries))

    async def _tell(self, losses: dict[str, dict[str, Loss]], entries: Sequence[Entry]) -> list[Entry]:
        """Send losses to the controller. Returns the entries that need not be sent again."""
        try:
            response = await self._channel.send(_request(losses))
        except ApiError as problem:
            self._log.info("losses not reported yet", losses=len(entries), reason=str(problem))
            return []
        again = {result.resource_name for result in response.responses if result.error_code in PASSES}
        return [entry for entry in entries if entry.loss.topic not in again]


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
