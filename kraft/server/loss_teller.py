"""Completes reports of unclean elections (`kraft.common.loss_reports`): what replicas of this broker had and gave up is told to the active controller.

A cut counts if what was cut is older than an election that the metadata reports, and if it was made under that election's leader or a later one; any other is
the ordinary end of what was never acknowledged. It is told until the controller has it. What is not told when the process ends is in this node's log alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from kraft.common.config.alterations import Operation
from kraft.common.errors import ApiError
from kraft.common.loss_reports import Loss, Report, keys_by_partition, loss_key, report_of_loss, reports_of, text_of
from kraft.metadata.image.configs_image import ResourceType
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from kraft.replication.following import Truncation
from kraft.replication.partition import Partition
from kraft.world.ports import Clock

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.server.node_to_controller_channel import NodeToControllerChannel

WAITING_MAX: Final = 10_000
"""Cuts that wait to be told; the oldest of more is told by this node's log alone."""
TOLD_AT_ONCE_MAX: Final = 500
RETRY_SECONDS: Final = 1.0
PASSES: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)
"""What may be over at the next try; for anything else the report is gone: dismissed, or its topic deleted."""


class _Cut(NamedTuple):
    topic: str
    topic_id: bytes
    partition: int
    first_epoch: int
    loss: Loss


class LossTeller:
    """Owned by the broker's loop."""

    def __init__(self, replica_id: int, image: Callable[[], MetadataImage], channel: NodeToControllerChannel, clock: Clock, log: Logger) -> None:
        self._replica_id = replica_id
        self._image = image
        self._channel = channel
        self._clock = clock
        self._log = log
        self._waiting: deque[_Cut] = deque(maxlen=WAITING_MAX)
        self._woken = trio.Event()

    def truncated(self, partition: Partition, cut: Truncation) -> None:
        """A replica gave something up."""
        loss = Loss(cut.start_offset, cut.end_offset, cut.high_watermark, partition.leader_epoch, self._clock.wall_ms())
        self._waiting.append(_Cut(partition.topic, partition.topic_id, partition.index, cut.first_epoch, loss))
        self._woken.set()

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            while self._waiting:
                taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), TOLD_AT_ONCE_MAX))]
                left = await self._tell(taken)
                if left:
                    self._waiting.extendleft(reversed(left[: WAITING_MAX - len(self._waiting)]))
                    await self._clock.sleep(RETRY_SECONDS)

    async def _tell(self, cuts: list[_Cut]) -> list[_Cut]:
        """Those that have to be told again."""
        image = self._image()
        later = [cut for cut in cuts if _is_ahead(image, cut)]
        keys = {topic: keys_by_partition(image.configs.topic(topic).items()) for topic in dict.fromkeys(cut.topic for cut in cuts)}
        found: dict[str, dict[str, Loss]] = {}
        for cut in cuts:
            report = None if cut in later else self._report(keys[cut.topic], cut)
            if report is not None:
                known = found.setdefault(cut.topic, {})
                key = loss_key(cut.partition, report.leader_epoch, self._replica_id)
                known[key] = cut.loss.joined(known.get(key) or report.losses.get(self._replica_id))
        if not found:
            return later
        try:
            response = await self._channel.send(_request(found))
        except ApiError as problem:
            self._log.info("losses not told yet", losses=len(cuts), reason=str(problem))
            return cuts
        again = {result.resource_name for result in response.responses if result.error_code in PASSES}
        return [cut for cut in cuts if cut in later or cut.topic in again]

    def _report(self, keys: dict[int, list[tuple[str, str]]], cut: _Cut) -> Report | None:
        return report_of_loss(reports_of(keys.get(cut.partition, ())), cut.first_epoch, cut.loss.leader_epoch, self._replica_id)


def _is_ahead(image: MetadataImage, cut: _Cut) -> bool:
    """Whether replicas saw the election before the image is shown here, which is a matter of moments."""
    topic = image.topics.by_id.get(cut.topic_id)
    partition = None if topic is None else topic.partitions.get(cut.partition)
    return partition is not None and partition.leader_epoch < cut.loss.leader_epoch


def _request(found: dict[str, dict[str, Loss]]) -> Any:
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name=topic,
                configs=[AlterableConfig(name=name, config_operation=Operation.SET, value=text_of(loss)) for name, loss in losses.items()],
            )
            for topic, losses in found.items()
        ]
    )
