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
    """The requested number of results was found, or the limit of bytes in a response was reached."""
    TIME = "time"
    FAILED = "failed"
    """The node stops, or the login has expired."""


class SearchStart(BaseModel):
    kind: Literal["start"]
    partitions: list[int] = Field(description="Partitions to search, one after the other.")
    note: str | None = Field(description="Why the search chose these partitions.")
    offsets_total: Int64 = Field(description="Number of offsets to search.")


class SearchHit(BaseModel):
    kind: Literal["hit"]
    record: ConsumedRecord


class Progress(BaseModel):
    offsets_read: Int64
    offsets_total: Int64
    records_read: Int64
    bytes_read: Int64 = Field(description="Bytes read from the log, compressed if stored so.")
    hits: int
    elapsed_ms: int


class SearchProgress(Progress):
    kind: Literal["progress"]


class SearchEnd(Progress):
    kind: Literal["end"]
    reason: EndReason
    detail: str | None = None
    too_large: int = Field(description="Records with a part too large to search, which may match.")
    next_offsets: dict[str, Int64] = Field(description="First offset of each partition that was not searched.")
    unread_partitions: list[UnreadPartition] = Field(
        description="Partitions that were not searched, or only up to a damaged batch or a failure."
    )
