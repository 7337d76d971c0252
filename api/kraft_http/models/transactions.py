"""Transactions and users."""

from __future__ import annotations

from pydantic import BaseModel, Field

from kraft_http.models.common import CollectionMetadata, UnansweredBrokers
from kraft_http.requests.int64 import Int64


class TransactionPartitions(BaseModel):
    topic_name: str
    partitions: list[int]


class TransactionData(BaseModel):
    transactional_id: str
    coordinator_id: int
    state: str = Field(examples=["Ongoing", "CompleteCommit"])
    producer_id: Int64
    producer_epoch: int
    timeout_ms: int
    start_time_ms: Int64 = Field(description="-1 without an open transaction.")
    topics: list[TransactionPartitions]


class TransactionList(BaseModel):
    metadata: CollectionMetadata
    data: list[TransactionData]
    unanswered_brokers: UnansweredBrokers


class UserCredentials(BaseModel):
    user: str
    mechanisms: dict[str, int] = Field(
        description="Iterations of each mechanism. Salts and keys are never returned.",
        examples=[{"SCRAM-SHA-256": 4096}],
    )


class UserList(BaseModel):
    data: list[UserCredentials]
