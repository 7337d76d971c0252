"""`kraft-node`: the composition root of one process with one node.

It parses, configures, runs, and exits with a code: 0 stopped as requested, 1 failed, with the reason as the last line,
2 invalid configuration, with every problem in one report. What belongs to the process and not to a node - signals,
stdout, the admin socket and its thread, the garbage collector - is composed here; the node is
`kraft.server.node.run_node`.

The time from the start of the process to the first acknowledged record matters, so everything not needed for it
(FastAPI above all) is imported after the ready line.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft.cli.config_files import process_surroundings, read_config_files, refuse_secrets
from kraft.cli.options import Invocation, parse_command_line
from kraft.cli.terminal import refuse_system, report_problems, stderr_sink
from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ConfigurationError

if TYPE_CHECKING:
    from kraft.cli.process import RunNode
    from kraft.common.config.node.node_config import NodeConfig

OK = 0
FAULT = 1
UNUSABLE = 2

SWITCH_INTERVAL_SECONDS = 0.0005
"""Longest time that another thread keeps the interpreter from the loop (measured: p99 of small requests beside a busy
thread 0.16 ms instead of 9)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of the `kraft-node` script. Returns the exit code."""
    if refuse_system("kraft-node"):
        return UNUSABLE
    arguments = sys.argv[1:] if arguments is None else arguments
    invocation = parse_command_line(arguments)
    if invocation.workers is not None:
        from kraft.cli.workers import run_workers  # Only these need it.

        return run_workers(invocation, arguments, invocation.workers)
    try:
        config = configure(invocation)
    except ConfigurationError as error:
        report_problems(error.problems)
        return UNUSABLE
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.disable()  # Until everything is imported: `kraft.cli.heap` sets aside what is there, and enables it again.
    return run(config)


def configure(invocation: Invocation) -> NodeConfig:
    """Read the files and the environment and make the node's configuration. Raises ConfigurationError."""
    files, problems = read_config_files(invocation.config_paths)
    problems += refuse_secrets(invocation.sets)
    try:
        config = load_node_config(
            options=invocation.options,
            sets=invocation.sets,
            files=files,
            environment=os.environ,
            surroundings=process_surroundings(),
            format_options=invocation.format_options,
        )
    except ConfigurationError as error:
        raise ConfigurationError(problems + error.problems) from None
    if problems:
        raise ConfigurationError(problems)
    return config


def run(config: NodeConfig) -> int:
    """Run a node until it is asked to stop or fails. Returns the exit code."""
    from kraft.server.node import run_node  # The whole server: not before the configuration is known to be good.

    return run_process(config, run_node)


def run_process(config: NodeConfig, run_node: RunNode) -> int:
    """Run `run_node` in this process: logs to stderr, the ready line to stdout, signals, exit code."""
    from kraft.cli.process import configuration_problems, fault_reason, serve_process
    from kraft.world.real import RealWorld

    sink = stderr_sink(config.text("kraft.log.format"), config.text("kraft.log.level"))
    for warning in config.warnings:
        sink({"level": "warning", "event": "configuration", "note": warning})
    try:
        serve_process(config, RealWorld(log_sink=sink), run_node)
    except BaseException as error:  # noqa: BLE001 - the boundary of the process: whatever it was, its reason is the last line.
        problems = configuration_problems(error)
        if problems:
            report_problems(problems)
            return UNUSABLE
        sys.stderr.write(f"kraft-node: {fault_reason(error)}\n")
        return FAULT
    return OK


if __name__ == "__main__":
    sys.exit(main())
