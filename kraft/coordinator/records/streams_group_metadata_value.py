"""StreamsGroupMetadataValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class LastAssignmentConfig(Struct):
    __slots__ = ("key", "value", "unknown_tags")
    SCHEMA = """
    key: string 0+
    value: string 0+
    """

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.key = key
        self.value = value
        self.unknown_tags = unknown_tags


class StreamsGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash", "validated_topology_epoch", "last_assignment_configs", "stored_description_topology_epoch", "failed_description_topology_epoch", "unknown_tags")
    API_KEY = 17
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    epoch: int32 0+
    metadata_hash: int64 0+
    validated_topology_epoch: int32 0+ tag=0@0+ default=-1
    last_assignment_configs: []LastAssignmentConfig 0+ nullable=0+ tag=1@0+
    stored_description_topology_epoch: int32 0+ tag=2@0+ default=-1
    failed_description_topology_epoch: int32 0+ tag=3@0+ default=-1
    """

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
        validated_topology_epoch: int = -1,
        last_assignment_configs: list[LastAssignmentConfig] | tuple[LastAssignmentConfig, ...] | None = (),
        stored_description_topology_epoch: int = -1,
        failed_description_topology_epoch: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.validated_topology_epoch = validated_topology_epoch
        self.last_assignment_configs: list[LastAssignmentConfig] | None = list(last_assignment_configs) if isinstance(last_assignment_configs, tuple) else last_assignment_configs
        self.stored_description_topology_epoch = stored_description_topology_epoch
        self.failed_description_topology_epoch = failed_description_topology_epoch
        self.unknown_tags = unknown_tags
