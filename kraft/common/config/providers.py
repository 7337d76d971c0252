"""`config.providers`: values from elsewhere, referred to as `${provider:path:key}` (KIP-297, KIP-421, KIP-887,
KIP-993).

Kafka's three providers by their class names. As in Kafka, a variable of an unknown provider stays as it is. A variable
whose provider returns no value is an error; Kafka uses the variable's own text as the value, which would be a password
that everybody can read in a manual.

Values are resolved once, when a configuration is read, and not recursively.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from posixpath import normpath
from typing import Final

from kraft.common.config.properties import parse_properties

PROVIDERS: Final = "config.providers"
PREFIX: Final = "config.providers."
CLASSES: Final = {
    f"org.apache.kafka.common.config.provider.{name}": name
    for name in ("FileConfigProvider", "EnvVarConfigProvider", "DirectoryConfigProvider")
}
_PATHS: Final = "allowed.paths"
_PATTERN: Final = "allowlist.pattern"
_PARAMETERS: Final = {
    "FileConfigProvider": _PATHS,
    "EnvVarConfigProvider": _PATTERN,
    "DirectoryConfigProvider": _PATHS,
}
VARIABLE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
SECRET_BYTES_MAX: Final = 1 << 20
"""Limit of a file that holds one value."""


def nothing_to_read(path: str) -> str | None:
    """Return None: the default `read`, for a process that reads no files."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretPlaces:
    """The sources of providers. `read` returns the text of a regular file of at most `SECRET_BYTES_MAX` bytes, None if
    it does not exist or cannot be read; `exists` works for any path."""

    read: Callable[[str], str | None] = nothing_to_read
    exists: Callable[[str], bool] = lambda path: False
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    kind: str
    allowed_paths: tuple[str, ...] | None = None
    pattern: re.Pattern[str] | None = None


class Providers:
    """The configured providers. `problems` are messages about invalid provider keys."""

    def __init__(self, texts: Mapping[str, str], places: SecretPlaces) -> None:
        """`texts` are configured values by key. Keys other than those of providers are ignored."""
        self._places = places
        self._files: dict[str, dict[str, str] | None] = {}
        self._providers: dict[str, _Provider] = {}
        self.problems: list[str] = []
        self.given: dict[str, None] = {}
        """All values that providers have returned, so that they can be hidden in messages."""
        names = [name.strip() for name in texts.get(PROVIDERS, "").split(",") if name.strip()]
        for name in names:
            try:
                self._providers[name] = self._made(name, texts)
            except ValueError as problem:
                self.problems.append(str(problem))

    def resolve(self, text: str) -> str:
        """`text` with the values of its variables. Raises ValueError with a message that shows none of them."""
        return VARIABLE.sub(lambda match: self._value(match[0], match[1], match[2] or "", match[3]), text)

    def names_secret(self, text: str) -> bool:
        """Whether the text has a variable of one of these providers."""
        return any(match[1] in self._providers for match in VARIABLE.finditer(text))

    def _made(self, name: str, texts: Mapping[str, str]) -> _Provider:
        """Raises ValueError."""
        own = f"{PREFIX}{name}."
        kind = CLASSES.get(texts.get(f"{own}class", "").strip())
        if kind is None:
            raise ValueError(f"{own}class is not one of {', '.join(CLASSES)}")
        parameter = f"{own}param.{_PARAMETERS[kind]}"
        unknown = [key for key in texts if key.startswith(own) and key not in (f"{own}class", parameter)]
        if unknown:
            raise ValueError(f"{unknown[0]} is not known; {kind} takes {parameter}")
        if parameter not in texts:
            return _Provider(kind=kind)
        if _PARAMETERS[kind] == _PATTERN:
            try:
                return _Provider(kind=kind, pattern=re.compile(texts[parameter].strip()))
            except re.error as problem:
                raise ValueError(f"{parameter} is no regular expression: {problem}") from problem
        paths = [path.strip() for path in texts[parameter].split(",") if path.strip()]
        for path in paths:
            if not path.startswith("/"):
                raise ValueError(f"{parameter}: path {path} is not absolute")
            if not self._places.exists(path):
                raise ValueError(f"{parameter}: path {path} does not exist")
        return _Provider(kind=kind, allowed_paths=tuple(normpath(path) for path in paths) or None)

    def _value(self, variable: str, name: str, path: str, key: str) -> str:
        provider = self._providers.get(name)
        if provider is None:
            return variable
        value = self._look_up(provider, variable, path, key)
        if value is None:
            raise ValueError(f"{variable} names no value: {provider.kind} finds none there, or may not look there")
        self.given[value.strip()] = None
        return value

    def _look_up(self, provider: _Provider, variable: str, path: str, key: str) -> str | None:
        if provider.kind == "EnvVarConfigProvider":
            if path:
                raise ValueError(f"{variable}: EnvVarConfigProvider knows no paths")
            is_allowed = provider.pattern is None or provider.pattern.fullmatch(key)
            return self._places.environment.get(key) if is_allowed else None
        if not path or not _is_below(normpath(path), provider.allowed_paths):
            return None
        if provider.kind == "DirectoryConfigProvider":
            if key in ("", ".", "..") or "/" in key:
                return None
            return self._places.read(f"{normpath(path)}/{key}")
        if path not in self._files:
            self._files[path] = self._properties(path)
        found = self._files[path]
        if found is None:
            raise ValueError(f"{variable}: could not read properties from file {path}")
        return found.get(key)

    def _properties(self, path: str) -> dict[str, str] | None:
        text = self._places.read(normpath(path))
        try:
            return None if text is None else {entry.key: entry.value for entry in parse_properties(text)}
        except ValueError:
            return None


def is_provider_key(name: str) -> bool:
    """Whether the key configures a provider."""
    return name == PROVIDERS or name.startswith(PREFIX)


def _is_below(path: str, allowed: tuple[str, ...] | None) -> bool:
    """Whether a path is at or below an allowed one. As in Kafka, whole names are compared, and `..` is resolved only in
    the text."""
    if not path.startswith("/"):
        return allowed is None
    return allowed is None or any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in allowed)


_JAAS_SECRET: Final = re.compile(
    r"""\b(?:\w*password|\w*secret|user_[^\s="']*)\s*=\s*["']?(?!\$\{)[^\s"';]""", re.IGNORECASE
)


def shows_secret(name: str, text: str) -> bool:
    """Whether the value of a sensitive key contains the secret itself, and not only a variable."""
    if name.endswith("sasl.jaas.config"):
        return _JAAS_SECRET.search(text) is not None
    return bool(text.strip()) and VARIABLE.fullmatch(text.strip()) is None
