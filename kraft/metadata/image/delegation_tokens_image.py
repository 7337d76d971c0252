"""Delegation tokens by id (KIP-900 records). The secret key that signs them is configuration and never in the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.image.writer_options import WriterOptions
from kraft.metadata.records.delegation_token_record import DelegationTokenRecord
from kraft.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord


class DelegationToken(NamedTuple):
    """One delegation token. Times are milliseconds since the Unix epoch."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


@dataclass(frozen=True, slots=True)
class DelegationTokensImage:
    by_id: OrderedMap[str, DelegationToken] = field(default_factory=OrderedMap)

    def write(self, options: WriterOptions) -> Iterator[Any]:
        """Return the records, none below 3.6-IV2."""
        if not options.metadata_version.serves_delegation_tokens:
            if self.by_id:
                options.handle_loss(f"the delegation tokens {', '.join(self.by_id)}")
            return
        for token_id, token in self.by_id.items():
            yield DelegationTokenRecord(
                token_id=token_id,
                owner=token.owner,
                requester=token.requester,
                renewers=list(token.renewers),
                issue_timestamp=token.issue_timestamp,
                max_timestamp=token.max_timestamp,
                expiration_timestamp=token.expiration_timestamp,
            )


class DelegationTokensDraft:
    __slots__ = ("_base", "_by_id", "changed")

    def __init__(self, base: DelegationTokensImage) -> None:
        self._base = base
        self._by_id = base.by_id.mutate()
        self.changed: dict[str, DelegationToken | None] = {}

    def delegation_token(self, record: DelegationTokenRecord) -> None:
        self.changed.setdefault(record.token_id, self._base.by_id.get(record.token_id))
        self._by_id[record.token_id] = DelegationToken(
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def remove_delegation_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.changed.setdefault(record.token_id, self._base.by_id.get(record.token_id))
        self._by_id.pop(record.token_id, None)

    def finish(self) -> DelegationTokensImage:
        return DelegationTokensImage(OrderedMap(self._by_id.finish()))
