"""The names of a segment's objects: `<topic>-<topic id>/<partition>/<start offset>-<segment id><suffix>`.

The topic's name is for people. A recreated topic has another id, and a segment that is copied again has another id too.
So no name is ever used for two contents.
"""

from __future__ import annotations

import re
from typing import Final

from kraft.common.ids import Uuid, uuid_from_text, uuid_to_text
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from kraft.storage.log_files import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file_name,
)

LEADER_EPOCHS_SUFFIX: Final = f".{LEADER_EPOCH_CHECKPOINT}"
OBJECT_SUFFIXES: Final = (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    LEADER_EPOCHS_SUFFIX,
)

_NAME = re.compile(r".+/\d{20}-([0-9A-Za-z_-]{22})\.[a-z-]+")
_FOLDER = re.compile(r"(.+)-([0-9A-Za-z_-]{22})/(\d{1,10})")


def partition_folder(topic_id_partition: TopicIdPartition) -> str:
    """Return the folder of a partition's objects."""
    topic, topic_id, partition = topic_id_partition
    return f"{topic}-{uuid_to_text(topic_id)}/{partition}"


def place_of_folder(folder: str) -> TopicIdPartition | None:
    """The inverse of `partition_folder`; None for a folder of another form."""
    match = _FOLDER.fullmatch(folder)
    return None if match is None else TopicIdPartition(match[1], uuid_from_text(match[2]), int(match[3]))


def object_name(segment: RemoteLogSegmentMetadata, suffix: str) -> str:
    file_name = offset_file_name(segment.start_offset, f"-{uuid_to_text(segment.segment_id)}{suffix}")
    return f"{partition_folder(segment.topic_id_partition)}/{file_name}"


def segment_id_of(name: str) -> Uuid | None:
    """Return the segment that an object belongs to; None for a name of another form."""
    match = _NAME.fullmatch(name)
    return None if match is None else uuid_from_text(match[1])
