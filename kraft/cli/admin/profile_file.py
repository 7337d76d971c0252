"""Profiles: connection settings of clusters by name, in one file of the user's (TOML).

A profile holds no secrets itself: passwords are in the file that its `command-config` names.
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kraft.common.errors import ConfigurationError

FILE: Final = "KRAFT_PROFILES"
"""Environment variable with the path of another file."""
VARIABLES: Final = {
    "bootstrap-server": "KRAFT_BOOTSTRAP_SERVER",
    "command-config": "KRAFT_COMMAND_CONFIG",
    "admin": "KRAFT_ADMIN",
}
"""The environment variable that each setting stands for."""
BYTES_MAX: Final = 1 << 20

Profiles = dict[str, dict[str, str]]


def profiles_path(environment: Mapping[str, str]) -> Path:
    if chosen := environment.get(FILE):
        return Path(chosen)
    folder = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "kraft" / "profiles.toml"


def read_profiles(path: Path) -> Profiles:
    """The profiles of the file; none if it does not exist. Raises ConfigurationError for an invalid file, or one that
    other users may write to."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ConfigurationError([f"{path}: others may write to it, and choose your cluster: chmod 600 {path}"])
            text = file.read(BYTES_MAX + 1).decode()
        if len(text) > BYTES_MAX:
            raise ConfigurationError([f"{path}: more than {BYTES_MAX} bytes"])
        document = tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise ConfigurationError([f"{path}: {problem}"]) from problem
    problems = []
    for name, settings in document.items():
        if not isinstance(settings, dict):
            problems.append(f"{path}: {name} is outside of a profile: put a line [NAME] before it")
            continue
        problems += [
            f"{path}: [{name}] {key}: {'unknown' if key not in VARIABLES else 'not a text'}; a profile has "
            f"{', '.join(VARIABLES)}"
            for key, value in settings.items()
            if key not in VARIABLES or not isinstance(value, str)
        ]
    if problems:
        raise ConfigurationError(problems)
    return document


def write_profiles(path: Path, profiles: Profiles) -> None:
    """Write the file atomically, readable by its owner only. Raises ConfigurationError."""
    lines = []
    for name, settings in profiles.items():
        lines.append(f"[{_text(name)}]")
        lines += [f"{key} = {_text(value)}" for key, value in settings.items()]
        lines.append("")
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        new.replace(path)
    except (OSError, UnicodeEncodeError) as problem:
        with suppress(OSError):
            new.unlink()
        raise ConfigurationError([f"{path}: {problem}"]) from problem


def _text(value: str) -> str:
    """Return a TOML string. Its escapes are those of JSON, except that TOML has no surrogate pairs and requires an
    escape for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def variables_of(profiles: Profiles, name: str, path: Path) -> dict[str, str]:
    """The environment variables of the profile; an empty text removes a variable. Raises ConfigurationError for an
    unknown profile."""
    if name not in profiles:
        known = ", ".join(profiles) or "none yet; `kraft profiles set` makes one"
        raise ConfigurationError([f"--profile: there is no {name!r} in {path}, which has {known}"])
    return {variable: profiles[name].get(key, "") for key, variable in VARIABLES.items()}
