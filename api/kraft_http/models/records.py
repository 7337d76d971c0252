"""Records in requests and responses."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, Field

from kraft_http.models.common import INT32_MAX, Body, Collection
from kraft_http.requests.int64 import Int64
from kraft_http.requests.outcomes import Outcome


class DataType(StrEnum):
    BINARY = "BINARY"
    """base64 in `data`."""
    JSON = "JSON"
    STRING = "STRING"


class RecordData(Body):
    type: DataType = DataType.JSON
    data: Any = None


class RecordHeader(Body):
    name: str
    value: str | None = Field(default=None, description="base64")


class ProduceRecord(Body):
    """One record. Without `partition_id` the hash of the key selects the partition, as in Java clients; records without
    a key take turns."""

    partition_id: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = None
    headers: list[RecordHeader] = Field(default_factory=list)
    key: RecordData | None = None
    value: RecordData | None = None
    timestamp: datetime | None = Field(default=None, description="RFC 3339. Default: now.")


class ProducedData(BaseModel):
    type: DataType
    size: int = Field(description="Stored size in bytes.")


class ProduceReport(BaseModel):
    """The result for one record. The reports of a stream are in the order of its records."""

    error_code: int = Field(description="200 if the record is acknowledged.")
    message: str | None = None
    cluster_id: str | None = None
    topic_name: str | None = None
    partition_id: int | None = None
    offset: Int64 | None = None
    timestamp: str | None = None
    key: ProducedData | None = None
    value: ProducedData | None = None


class ProduceBatchEntry(ProduceRecord):
    id: str = Field(min_length=1, max_length=80)


class ProduceBatchBody(Body):
    entries: list[ProduceBatchEntry] = Field(min_length=1, max_length=1000)


class BatchSuccess(ProduceReport):
    id: str


class BatchFailure(BaseModel):
    id: str
    error_code: int
    message: str


class ProduceBatchResponse(BaseModel):
    successes: list[BatchSuccess]
    failures: list[BatchFailure]


class ConsumedHeader(BaseModel):
    name: str
    name_type: DataType = Field(
        description="STRING; BINARY if the name is not UTF-8, which `name` then shows as base64."
    )
    value: str | None = Field(description="base64")


class ConsumedData(BaseModel):
    type: DataType
    data: Any


class ConsumedRecord(BaseModel):
    partition_id: int
    offset: Int64
    timestamp: str
    key: ConsumedData | None
    value: ConsumedData | None
    headers: list[ConsumedHeader]
    transaction: Outcome | None = Field(
        description=(
            "Outcome of the record's transaction; null for a record without one. `undecided`: the transaction "
            "ended after the records that were read, or is still open."
        )
    )


class UnreadPartition(BaseModel):
    partition_id: int
    detail: str
    """Why the partition was not read."""


class ConsumedRecords(Collection):
    cluster_id: str
    topic_name: str
    topic_id: str = Field(description="UUID of the topic. Send it with the offsets of this response.")
    topic_recreated: bool = Field(
        description=(
            "Whether the topic was deleted and recreated since the request's topic id. Its partitions were then "
            "read from their start, whatever `positions` says."
        )
    )
    data: list[ConsumedRecord]
    next_offsets: dict[str, Int64] = Field(description="Next offset of each partition that was read.")
    end_offsets: dict[str, Int64] = Field(description="End offset of each partition when it was read.")
    unread_partitions: list[UnreadPartition] = Field(
        description="Partitions that were not read: the offset, the leader or the partition does not exist."
    )
