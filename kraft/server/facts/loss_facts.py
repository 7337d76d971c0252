"""Reports of unclean elections. Any node has all of them, in its metadata image."""

from __future__ import annotations

import trio
from kraft_http.ports import UncleanElectionFacts

from kraft.common.config.dynamic.loss_reports import keys_by_partition, reports_of
from kraft.common.config.resource_type import ResourceType
from kraft.metadata.image.metadata_image import MetadataImage

SLICE_REPORTS = 50
"""Reports read between two yields."""


async def gather_unclean_elections(image: MetadataImage, wanted: str | None) -> list[UncleanElectionFacts]:
    """Gather the unclean elections of one topic or of all from one metadata image, in order of topic, partition and
    leader epoch. Other tasks run between slices."""
    found: list[UncleanElectionFacts] = []
    read = 0
    for resource, texts in image.configs.resources.items():
        if resource.type != ResourceType.TOPIC or wanted not in (None, resource.name):
            continue
        keys = keys_by_partition(texts.items())
        for partition in sorted(keys):
            for report in reports_of(keys[partition]):
                gone = tuple(
                    replica for replica in report.outstanding if _is_gone(image, resource.name, partition, replica)
                )
                found.append(UncleanElectionFacts(topic=resource.name, report=report, gone=gone))
            read += 1
            if read % SLICE_REPORTS == 0:
                await trio.lowlevel.checkpoint()
    return found


def _is_gone(image: MetadataImage, topic: str, index: int, replica: int) -> bool:
    known = image.topics.by_name(topic)
    partition = None if known is None else known.partitions.get(index)
    return partition is None or replica not in partition.replicas or replica not in image.cluster.brokers
