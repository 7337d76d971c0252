"""One row of the configuration table, and a table of rows.

Everything about configuration - start-up parsing, the controller's checks of alterations, DescribeConfigs, the HTTP
schema, docs/configuration.md - reads these rows and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kraft.common.config.types import TYPE_NAMES, ConfigType, Value, parse_text, text_of
from kraft.common.config.validators import ANYTHING, Validator, invalid


class Importance:
    HIGH: Final = "high"
    MEDIUM: Final = "medium"
    LOW: Final = "low"


class UpdateMode:
    """Whether, and for which scope, a broker key may be changed while the node runs (KIP-226)."""

    READ_ONLY: Final = "read-only"
    PER_BROKER: Final = "per-broker"
    CLUSTER_WIDE: Final = "cluster-wide"


class Status:
    """How this implementation treats a key. No key is silently ignored."""

    ENFORCED: Final = "enforced"
    """The key has the documented effect."""
    ACCEPTED: Final = "accepted"
    """Valid values are accepted and shown, but have no effect here. Another value than the default is logged once."""
    REFUSED: Final = "refused"
    """Another value than the default is an error, since ignoring it would break a promise (security, quotas,
    tiering)."""
    PLUGIN: Final = "plugin"
    """The value names code for a JVM. It is ignored, with one warning."""


class Required:
    """The value that marks a required key, which has no default."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = Required()


class ConfigKey:
    """One key: its name, type, default, limits and documentation. Immutable by convention; created once at import."""

    __slots__ = (
        "default",
        "default_text",
        "documentation",
        "importance",
        "internal",
        "name",
        "status",
        "type",
        "update_mode",
        "validator",
    )

    def __init__(
        self,
        name: str,
        type_code: int,
        default_text: str | Required | None,
        importance: str,
        update_mode: str,
        status: str,
        validator: Validator,
        documentation: str,
        internal: bool = False,
    ) -> None:
        self.name = name
        self.type = type_code
        self.default_text = default_text
        self.importance = importance
        self.update_mode = update_mode
        self.status = status
        self.validator = validator
        self.documentation = documentation
        self.internal = internal
        absent = default_text is None or isinstance(default_text, Required)
        self.default: Value = None if absent else parse_text(type_code, str(default_text))
        """The parsed default; None for Kafka's null and for a required key."""

    @property
    def required(self) -> bool:
        return isinstance(self.default_text, Required)

    @property
    def default_canonical_text(self) -> str | None:
        return text_of(self.type, self.default)

    @property
    def type_name(self) -> str:
        return TYPE_NAMES[self.type]

    @property
    def sensitive(self) -> bool:
        """Whether its value must never be shown."""
        return self.type == ConfigType.PASSWORD

    @property
    def read_only(self) -> bool:
        return self.update_mode == UpdateMode.READ_ONLY

    def parse(self, text: str) -> Value:
        """The value of `text`, checked. Raises ValueError with Kafka's message."""
        try:
            value = parse_text(self.type, text)
        except ValueError as problem:
            raise ValueError(invalid(self.name, text, str(problem))) from None
        complaint = self.validator.check(self.name, value)
        if complaint:
            raise ValueError(complaint)
        return value

    def validate(self, text: str) -> str | None:
        """The error message for `text`, or None if it is valid."""
        try:
            self.parse(text)
        except ValueError as problem:
            return str(problem)
        return None

    def is_default(self, text: str) -> bool:
        """Whether `text` means the default value."""
        try:
            return parse_text(self.type, text) == self.default
        except ValueError:
            return False

    def __repr__(self) -> str:
        return f"ConfigKey({self.name})"


def key(
    name: str,
    type_code: int,
    default: str | Required | None,
    importance: str,
    update_mode: str,
    status: str,
    validator: Validator = ANYTHING,
    documentation: str = "",
    *,
    internal: bool = False,
) -> ConfigKey:
    """A row, in the order of arguments that the tables under `keys/` use."""
    return ConfigKey(name, type_code, default, importance, update_mode, status, validator, documentation, internal)


class ConfigDef:
    """A table of keys, in order of name."""

    __slots__ = ("_keys",)

    def __init__(self, *groups: Iterable[ConfigKey]) -> None:
        rows = [row for group in groups for row in group]
        self._keys = {row.name: row for row in sorted(rows, key=lambda row: row.name)}
        assert len(self._keys) == len(rows), "a key is defined twice"

    def get(self, name: str) -> ConfigKey | None:
        return self._keys.get(name)

    def __getitem__(self, name: str) -> ConfigKey:
        return self._keys[name]

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def names(self) -> list[str]:
        return list(self._keys)

    def public(self) -> list[ConfigKey]:
        """The keys that DescribeConfigs shows when none is named."""
        return [row for row in self if not row.internal]

    def validate(self, name: str, text: str) -> str | None:
        """The error message, or None. An unknown name is an error."""
        row = self._keys.get(name)
        return f"Unknown config name: {name}" if row is None else row.validate(text)

    def parse(self, name: str, text: str) -> Value:
        """The value of `text`. Raises KeyError for an unknown name, ValueError with Kafka's message for an invalid
        value."""
        return self._keys[name].parse(text)
