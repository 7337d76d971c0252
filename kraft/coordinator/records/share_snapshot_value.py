"""ShareSnapshotValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class StateBatch(Struct):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count", "unknown_tags")
    SCHEMA = """
    first_offset: int64 0+
    last_offset: int64 0+
    delivery_state: int8 0+
    delivery_count: int16 0+
    """

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count
        self.unknown_tags = unknown_tags


class ShareSnapshotValue(Message):
    __slots__ = ("snapshot_epoch", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "create_timestamp", "write_timestamp", "state_batches", "unknown_tags")
    API_KEY = 0
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    snapshot_epoch: int32 0+
    state_epoch: int32 0+
    leader_epoch: int32 0+
    start_offset: int64 0+
    delivery_complete_count: int32 0+ tag=0@0+ default=-1
    create_timestamp: int64 0+
    write_timestamp: int64 0+
    state_batches: []StateBatch 0+
    """

    def __init__(
        self,
        *,
        snapshot_epoch: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        create_timestamp: int = 0,
        write_timestamp: int = 0,
        state_batches: list[StateBatch] | tuple[StateBatch, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.snapshot_epoch = snapshot_epoch
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.create_timestamp = create_timestamp
        self.write_timestamp = write_timestamp
        self.state_batches: list[StateBatch] = list(state_batches) if isinstance(state_batches, tuple) else state_batches
        self.unknown_tags = unknown_tags
