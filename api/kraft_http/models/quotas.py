"""Quotas of users, client ids and addresses."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, FiniteFloat, model_validator

from kraft.metadata.quota_keys import ADDRESS_KEYS, CLIENT_ID, CLIENT_KEYS, IP, USER
from kraft_http.models.common import Body

KINDS = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
_Name = Annotated[str, Field(min_length=1, max_length=1_000)]


class QuotaEntity(Body):
    """A user, a client id, both together, or an address. `null` as a name is the default, for names of the type without
    a quota of their own."""

    user: _Name | None = Field(default=None, examples=["alice"])
    client_id: _Name | None = Field(default=None, examples=["reports"])
    ip: _Name | None = Field(default=None, examples=["10.0.0.7"])

    def parts(self) -> dict[str, str | None]:
        """The names by Kafka's entity type."""
        return {KINDS[field]: getattr(self, field) for field in KINDS if field in self.model_fields_set}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("name a user, a client_id or an ip; null is the default of its type")
        if "ip" in self.model_fields_set and len(self.model_fields_set) > 1:
            raise ValueError("addresses have quotas of their own, not together with users or client ids")
        return self


class QuotaData(BaseModel):
    entity: dict[str, str | None] = Field(
        description="user, client_id or ip, with a name, or with null for the default.",
        examples=[{"user": "alice", "client_id": None}],
    )
    limits: dict[str, float] = Field(examples=[{"producer_byte_rate": 1048576.0}])


class QuotaList(BaseModel):
    data: list[QuotaData]


class QuotaChange(Body):
    """A change of one entity's limits. Either all of it is applied or nothing."""

    entity: QuotaEntity
    set: dict[str, FiniteFloat] = Field(
        default={}, max_length=16, description=f"Limits by key: {', '.join((*CLIENT_KEYS, *ADDRESS_KEYS))}."
    )
    delete: list[str] = Field(default=[], max_length=16, description="Keys of limits to remove.")
    validate_only: bool = Field(default=False, description="Validate the change without applying it.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.set and not self.delete:
            raise ValueError("nothing to set and nothing to delete")
        if both := sorted({*self.set} & {*self.delete}):
            raise ValueError(f"{both[0]} is to be set and to be deleted")
        return self


def by_field(entity: Any) -> dict[str, str | None]:
    """The entity with the field names of `QuotaEntity` instead of Kafka's entity types."""
    fields = {kind: field for field, kind in KINDS.items()}
    return {fields.get(kind, kind): name for kind, name in entity.items()}
