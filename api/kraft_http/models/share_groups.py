"""Share groups (KIP-932), their members and start offsets."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from kraft_http.models.common import Collection, Relationship, Resource, UnansweredBrokers
from kraft_http.models.groups import (
    PARTITIONS_SHOWN_MAX,
    AssignedPartition,
    OffsetResetData,
    ResetOffsetsBody,
)
from kraft_http.requests.int64 import Int64


class ShareGroupData(Resource):
    share_group_id: str
    state: str = Field(examples=["STABLE", "EMPTY"])
    partition_assignor: str
    group_epoch: int = Field(description="Grows with each change of members, subscriptions or partitions.")
    assignment_epoch: int = Field(description="Group epoch of the assignment.")
    consumer_count: int
    partition_count: int = Field(
        description="Number of partitions that members have. Several members may have the same one."
    )
    assigned_topic_partitions: list[AssignedPartition] | None = Field(
        description="Partitions that members have or for which the group has a start offset, at most "
        f"{PARTITIONS_SHOWN_MAX} of them; null in a list of groups."
    )
    coordinator: Relationship
    consumers: Relationship
    offsets: Relationship


class ShareGroupDataList(Collection):
    data: list[ShareGroupData]
    unanswered_brokers: UnansweredBrokers


class ShareGroupConsumerData(Resource):
    group_id: str
    consumer_id: str
    client_id: str
    host: str
    rack_id: str | None
    member_epoch: int = Field(description="Below group_epoch, the member has an older assignment.")
    subscribed_topics: list[str]
    partitions_count: int
    partitions: list[AssignedPartition] = Field(description=f"At most {PARTITIONS_SHOWN_MAX} of them.")
    assignments: Relationship


class ShareGroupConsumerDataList(Collection):
    data: list[ShareGroupConsumerData]


class ShareGroupConsumerAssignmentData(Resource):
    group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Relationship


class ShareGroupConsumerAssignmentDataList(Collection):
    data: list[ShareGroupConsumerAssignmentData]


class ShareGroupOffsetData(Resource):
    group_id: str
    topic_name: str
    partition_id: int
    start_offset: Int64 | None = Field(
        description="First record that is not finished; null before a member has fetched the partition."
    )
    lag: Int64 | None = Field(
        description=(
            "Unfinished records from the start offset to the end (KIP-1226); null if the leader does not respond."
        )
    )


class ShareGroupOffsetDataList(Collection):
    data: list[ShareGroupOffsetData]


class ShareGroupRecordsData(Resource):
    """Records in the same state."""

    group_id: str
    topic_name: str
    partition_id: int
    first_offset: Int64
    last_offset: Int64
    state: Literal["AVAILABLE", "ACQUIRED", "ACKNOWLEDGING", "ACKNOWLEDGED", "ARCHIVING", "ARCHIVED"] = Field(
        description=(
            "ACKNOWLEDGING: the acknowledgement is not durable yet. ARCHIVING: given up, and the dead letter is not "
            "written yet."
        )
    )
    delivery_count: int
    consumer_id: str | None = Field(description="The member that holds the records; null if none does.")
    lock_ms: int | None = Field(description="Time left of the member's lock; null without one.")


class ShareGroupRecordsDataList(Collection):
    data: list[ShareGroupRecordsData]
    ranges_count: int = Field(description="Number of all ranges. At most 1,000 are listed.")
    unanswered_brokers: UnansweredBrokers


class ResetShareOffsetsBody(ResetOffsetsBody):
    """The new start offsets of a share group without members. `offset` and `timestamp` (ms) need a `value`."""

    to: Literal["earliest", "latest", "offset", "timestamp"]


class ShareOffsetResetList(BaseModel):
    group_id: str
    validate_only: bool
    data: list[OffsetResetData]
