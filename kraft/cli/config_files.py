"""The sources of a node's configuration: the files of the command line, and the process's environment."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kraft.common.config.node.layers import ConfigFile
from kraft.common.config.node.node_loader import Surroundings
from kraft.common.config.providers import SECRET_BYTES_MAX, SecretPlaces, shows_secret
from kraft.common.config.resources import broker_key


def read_config_files(paths: Sequence[str]) -> tuple[list[ConfigFile], list[str]]:
    """The readable files, in order, and a message for each that cannot be read."""
    files, problems = [], []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                files.append(ConfigFile(path, file.read()))
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "not UTF-8 text"
            problems.append(f"--config {path}: {reason}")
    return files, problems


def process_surroundings() -> Surroundings:
    """The surroundings of this process."""
    return Surroundings(
        working_directory=os.getcwd(), host_name=os.uname().nodename, secret_places=process_secret_places()
    )


def process_secret_places() -> SecretPlaces:
    """The sources that `config.providers` may use in this process."""
    return SecretPlaces(read=_read_secret, exists=os.path.exists, environment=os.environ)


def _read_secret(path: str) -> str | None:
    try:
        if not os.path.isfile(path):
            return None
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read(SECRET_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) <= SECRET_BYTES_MAX else None


def refuse_secrets(sets: Sequence[str]) -> list[str]:
    """A message for every secret on the command line, where every user of the machine can read it."""
    problems = []
    for pair in sets:
        name, separator, text = pair.partition("=")
        row = broker_key(name.strip())
        if separator and row is not None and row.sensitive and shows_secret(name.strip(), text):
            problems.append(
                f"--set {name.strip()}: every user of this machine can see a secret on a command line. Put it "
                "into a --config file, or refer to a file that has it: config.providers, "
                f"--set '{name.strip()}=${{file:/path/to/secrets.properties:key}}'"
            )
    return problems
