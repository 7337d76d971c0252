"""The lines of a search response."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, Field

from kraft_http.models.records import ConsumedRecord, UnreadPartition
from kraft_http.requests.int64 import Int64


class EndReason(StrEnum):
    ALL_READ = "all_read"
    HITS = "hits"
    """As many were found as were asked for, or as many bytes of them as one answer may have."""
    TIME = "time"
    FAILED = "failed"
    """The node stops, or the login holds no longer."""


class SearchStart(BaseModel):
    kind: Literal["start"]
    partitions: list[int] = Field(description="That are read, one after the other.")
    note: str | None = Field(description="Why only these, where the search chose them itself.")
    offsets_total: Int64 = Field(description="How many offsets there are to look through.")


class SearchHit(BaseModel):
    kind: Literal["hit"]
    record: ConsumedRecord


class Progress(BaseModel):
    offsets_read: Int64
    offsets_total: Int64
    records_read: Int64
    bytes_read: Int64 = Field(description="As they came from the log: compressed where it is.")
    hits: int
    elapsed_ms: int


class SearchProgress(Progress):
    kind: Literal["progress"]


class SearchEnd(Progress):
    kind: Literal["end"]
    reason: EndReason
    detail: str | None = None
    too_large: int = Field(description="Records with a part too large to be looked at, which may fit all the same.")
    next_offsets: dict[str, Int64] = Field(description="For each partition, the first offset that was not looked at.")
    unread_partitions: list[UnreadPartition] = Field(
        description="Partitions that were not read, or only up to a damaged batch or a failure."
    )
