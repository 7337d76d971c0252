"""The configuration of a node, read by commands that work on its directories while it does not run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from kraft.cli.admin.running import complain
from kraft.cli.config_files import process_surroundings, read_config_files, refuse_secrets
from kraft.common.config.node.format_options import FormatOptions
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ConfigurationError
from kraft.raft.core.voter_set import Endpoint

UNUSABLE = 2

Configs = Annotated[
    list[str],
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Properties file of the node. Repeatable; later files win.",
        show_default=False,
    ),
]
Sets = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Set a configuration key. Repeatable.")]
NodeId = Annotated[
    str | None, typer.Option("--node-id", metavar="N", help="Node id, as for kraft-node.", show_default=False)
]
DataDir = Annotated[
    str | None,
    typer.Option("--data-dir", metavar="DIR", help="Data directory, as for kraft-node.", show_default=False),
]
Voters = Annotated[
    str | None,
    typer.Option(
        "--voters", metavar="1@H:P,2@H:P,..", help="Voters of a static quorum, as for kraft-node.", show_default=False
    ),
]


def read_config(
    paths: list[str], sets: list[str], options: Sequence[tuple[str, str]] = (), add_scram: Sequence[str] = ()
) -> NodeConfig:
    """The configuration as `kraft-node` would read it, environment included. Exits with 2 if it is invalid."""
    files, problems = read_config_files(paths)
    problems += refuse_secrets(sets)
    try:
        if problems:
            raise ConfigurationError(problems)
        return load_node_config(
            options=options,
            sets=sets,
            files=files,
            environment=os.environ,
            surroundings=process_surroundings(),
            format_options=FormatOptions(add_scram=tuple(add_scram)),
        )
    except ConfigurationError as problem:
        complain(problem)
        raise typer.Exit(UNUSABLE) from problem


def directories_of(config: NodeConfig) -> tuple[str, ...]:
    """The log.dirs, and metadata.log.dir if it is not one of them."""
    return (
        config.log_dirs if config.metadata_log_dir in config.log_dirs else (*config.log_dirs, config.metadata_log_dir)
    )


def controller_endpoints(node: NodeConfig) -> tuple[Endpoint, ...]:
    """The advertised addresses of the controller's listeners."""
    names = set(node.controller_listener_names)
    return tuple(
        Endpoint(endpoint.name, endpoint.host, endpoint.port) for endpoint in node.advertised if endpoint.name in names
    )
