"""Parts shared by all bodies, and the limits of numbers and names."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

PartitionId = Annotated[int, Field(ge=0, le=INT32_MAX, description="Number of the partition.", examples=[0])]
BrokerId = Annotated[int, Field(ge=0, le=INT32_MAX, description="Id of the broker.", examples=[1])]
Offset = Annotated[int, Field(ge=0, le=INT64_MAX)]
TopicName = Annotated[str, Field(min_length=1, max_length=249, description="Name of the topic.", examples=["flights"])]

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
HOST = rf"^(?:{_LABEL}(?:\.{_LABEL})*\.?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?)$"
"""A host name (letters, digits and hyphens; others in ASCII form) or an address."""


class Body(BaseModel):
    """A request body. Unknown members are rejected, so that a misspelt one is not silently replaced by a default."""

    model_config = ConfigDict(extra="forbid")


class Relationship(BaseModel):
    related: str = Field(description="URL of the related resource.")


class ResourceMetadata(BaseModel):
    self: str = Field(description="URL of this resource.")
    resource_name: str | None = None


class CollectionMetadata(BaseModel):
    self: str = Field(description="URL of this collection.")
    next: str | None = Field(default=None, description="URL of the next page, if page_size limits this one.")


class UnansweredBroker(BaseModel):
    broker_id: int
    detail: str


UnansweredBrokers = Annotated[
    list[UnansweredBroker],
    Field(description="Brokers that did not respond. The response lacks what only they know."),
]


AuthorizedOperations = Annotated[
    list[str],
    Field(
        description="Operations that the caller may perform, with include_authorized_operations.",
        examples=[["READ", "DESCRIBE"]],
    ),
]


class Resource(BaseModel):
    kind: str
    metadata: ResourceMetadata
    cluster_id: str


class Collection(BaseModel):
    kind: str
    metadata: CollectionMetadata
