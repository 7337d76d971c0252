"""The models of access control entries, users and delegation tokens."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from kraft.security.acls import (
    ANY,
    KIND_NAMES,
    OPERATION_NAMES,
    PATTERN_NAMES,
    PERMISSION_NAMES,
    UNKNOWN,
    WILDCARD,
    AccessControlEntry,
    PatternType,
)
from kraft_http.models.common import INT64_MAX, Body, Collection, Resource
from kraft_http.requests.int64 import Int64

TEXT_CHARACTERS_MAX = 32_767
"""Limit of a name, a principal or a host in a record."""
ENTRIES_MAX = 1_000
PASSWORD_CHARACTERS_MAX = 4_096


def _one_of(names: dict[int, str], *left_out: int) -> FieldInfo:
    """A field whose value is one of the words of `names`, except those of `left_out`."""
    words = [each for value, each in names.items() if value not in left_out]
    field: FieldInfo = Field(pattern=f"^({'|'.join(words)})$", json_schema_extra={"enum": list(words)})
    return field


AclResourceType = Annotated[str, _one_of(KIND_NAMES, UNKNOWN)]
AclPatternType = Annotated[str, _one_of(PATTERN_NAMES, UNKNOWN)]
AclOperation = Annotated[str, _one_of(OPERATION_NAMES, UNKNOWN)]
AclPermission = Annotated[str, _one_of(PERMISSION_NAMES, UNKNOWN)]
OneResourceType = Annotated[str, _one_of(KIND_NAMES, UNKNOWN, ANY)]
OnePatternType = Annotated[str, _one_of(PATTERN_NAMES, UNKNOWN, ANY, PatternType.MATCH)]
OneOperation = Annotated[str, _one_of(OPERATION_NAMES, UNKNOWN, ANY)]
OnePermission = Annotated[str, _one_of(PERMISSION_NAMES, UNKNOWN, ANY)]

Text = Annotated[str, Field(min_length=1, max_length=TEXT_CHARACTERS_MAX)]
Principal = Annotated[
    str, Field(pattern=r"^[^:]+:.", max_length=TEXT_CHARACTERS_MAX, examples=["User:alice"], description="TYPE:NAME.")
]


def number_of(word: str, names: dict[int, str]) -> int:
    """Kafka's id of a word in `names`."""
    return next(value for value, name in names.items() if name == word)


class AclBody(Body):
    """One access control entry to create."""

    resource_type: OneResourceType = Field(examples=["TOPIC"])
    resource_name: Text = Field(examples=["orders"])
    pattern_type: OnePatternType = Field(examples=["LITERAL"])
    principal: Principal
    host: Text = Field(default=WILDCARD, examples=["*"])
    operation: OneOperation = Field(examples=["READ"])
    permission: OnePermission = Field(examples=["ALLOW"])

    def entry(self) -> AccessControlEntry:
        """The entry with Kafka's ids."""
        return AccessControlEntry(
            number_of(self.resource_type, KIND_NAMES),
            self.resource_name,
            number_of(self.pattern_type, PATTERN_NAMES),
            self.principal,
            self.host,
            number_of(self.operation, OPERATION_NAMES),
            number_of(self.permission, PERMISSION_NAMES),
        )


class AclBatch(Body):
    data: list[AclBody] = Field(min_length=1, max_length=ENTRIES_MAX)


class AclWords(BaseModel):
    """An access control entry in Kafka's words."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


def words_of(entry: AccessControlEntry) -> dict[str, str]:
    """The entry's members as `AclWords` has them."""
    return {
        "resource_type": KIND_NAMES.get(entry.resource_type, KIND_NAMES[UNKNOWN]),
        "resource_name": entry.resource_name,
        "pattern_type": PATTERN_NAMES.get(entry.pattern_type, PATTERN_NAMES[UNKNOWN]),
        "principal": entry.principal,
        "host": entry.host,
        "operation": OPERATION_NAMES.get(entry.operation, OPERATION_NAMES[UNKNOWN]),
        "permission": PERMISSION_NAMES.get(entry.permission_type, PERMISSION_NAMES[UNKNOWN]),
    }


class AclData(Resource, AclWords):
    kind: str = "KafkaAcl"


class AclDataList(Collection):
    kind: str = "KafkaAclList"
    data: list[AclData]


class DeletedAcls(BaseModel):
    data: list[AclData]


class AccessVerdict(BaseModel):
    """The decision of this node's authorizer."""

    allowed: bool
    reason: str = Field(
        description=(
            "SUPER_USER, ENTRY (see `entry`), NO_ENTRY (no entry allows it), NO_ENTRY_NAMES_RESOURCE "
            "(allow.everyone.if.no.acl.found decides) or NO_AUTHORIZER."
        ),
        examples=["ENTRY"],
    )
    entry: AclWords | None = None


class UserBody(Body):
    """A new password for a user. It replaces an earlier one of the same mechanism."""

    password: str = Field(min_length=1, max_length=PASSWORD_CHARACTERS_MAX, repr=False)
    mechanism: str = Field(default="SCRAM-SHA-512", pattern="^SCRAM-SHA-(256|512)$")
    iterations: int = Field(default=4096, ge=4096, le=16384)


class TokenBody(Body):
    owner: Principal | None = Field(default=None, description="Owner of the token. Default: the caller.")
    renewers: list[Principal] = Field(
        default=[], max_length=100, description="Principals that may renew the token, beside its owner."
    )
    max_lifetime_ms: int | None = Field(
        default=None, ge=1, le=INT64_MAX, description="Default: delegation.token.max.lifetime.ms."
    )


class TokenTermBody(Body):
    hmac: str = Field(
        min_length=1, max_length=1_000, repr=False, description="HMAC in base64, as in the list of tokens."
    )
    period_ms: int | None = Field(default=None, ge=0, le=INT64_MAX, description="Milliseconds from now.")


class TokenData(BaseModel):
    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issued_ms: Int64
    expires_ms: Int64
    longest_ms: Int64 = Field(description="Latest time to which it can be renewed.")
    hmac: str = Field(description="Password of the token, in base64.", repr=False)


class TokenList(BaseModel):
    data: list[TokenData]


class TokenTerm(BaseModel):
    expires_ms: Int64
