"""SCRAM credentials by user and mechanism (KIP-900). Mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.image.writer_options import WriterOptions
from kraft.metadata.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kraft.metadata.records.user_scram_credential_record import UserScramCredentialRecord


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, keys hidden)"


@dataclass(frozen=True, slots=True)
class ScramImage:
    """Credentials by (user name, mechanism)."""

    credentials: OrderedMap[tuple[str, int], ScramCredential] = field(default_factory=OrderedMap)

    def write(self, options: WriterOptions) -> Iterator[Any]:
        """Return the records, none below 3.5-IV2."""
        if not options.metadata_version.serves_scram:
            if users := sorted({name for name, _ in self.credentials}):
                options.handle_loss(f"the SCRAM credentials of {', '.join(users)}")
            return
        for (name, mechanism), credential in self.credentials.items():
            yield UserScramCredentialRecord(name=name, mechanism=mechanism, **credential._asdict())


class ScramDraft:
    __slots__ = ("_base", "_credentials", "changed")

    def __init__(self, base: ScramImage) -> None:
        self._base = base
        self._credentials = base.credentials.mutate()
        self.changed: dict[tuple[str, int], ScramCredential | None] = {}

    def user_scram_credential(self, record: UserScramCredentialRecord) -> None:
        key = (record.name, record.mechanism)
        self.changed.setdefault(key, self._base.credentials.get(key))
        self._credentials[key] = ScramCredential(
            bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
        )

    def remove_user_scram_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        key = (record.name, record.mechanism)
        if self._credentials.get(key) is None:
            raise ValueError(f"a record removes the SCRAM credential {key}, which does not exist")
        self.changed.setdefault(key, self._base.credentials.get(key))
        del self._credentials[key]

    def finish(self) -> ScramImage:
        return ScramImage(OrderedMap(self._credentials.finish()))
