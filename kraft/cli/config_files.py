"""What the configuration of a node is read from: files that the command line names, and the process around it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kraft.common.config.layers import ConfigFile
from kraft.common.config.node_loader import Surroundings


def read_config_files(paths: Sequence[str]) -> tuple[list[ConfigFile], list[str]]:
    """The files that can be read, in order, and a sentence for each that cannot."""
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
    """Of this process."""
    return Surroundings(working_directory=os.getcwd(), host_name=os.uname().nodename)
