"""TLS of the HTTP admin: Kafka's `ssl.*` keys once more, as `kraft.admin.ssl.*`. None of them falls back to a
listener's."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, Status
from kraft.common.config.keys import ssl_keys
from kraft.common.config.keys.words import READ_ONLY

PREFIX: Final = "kraft.admin."
_OF_CLIENTS: Final = ("ssl.endpoint.identification.algorithm",)


def _of_admin(row: ConfigKey) -> ConfigKey:
    return ConfigKey(
        f"{PREFIX}{row.name}",
        row.type,
        row.default_text,
        row.importance,
        READ_ONLY,
        row.status,
        row.validator,
        f"As {row.name}, for the HTTP admin. {row.documentation}",
    )


KEYS: Final[tuple[ConfigKey, ...]] = tuple(
    _of_admin(row)
    for row in ssl_keys.KEYS
    if (row.status == Status.ENFORCED and row.name not in _OF_CLIENTS) or row.name.endswith("store.type")
)
"""If one of these is set, the HTTP admin serves only HTTPS."""
