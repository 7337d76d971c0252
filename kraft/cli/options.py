"""The command line of `kraft-node`: its options and their explanations.

Every option stands for a configuration key (`kraft.common.config.node.layers.OPTION_KEYS`). Values are not checked
here; the configuration's one report does that.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final, NamedTuple

from kraft.common.config.node.format_options import FormatOptions
from kraft.common.version import VERSION

_HELP_WIDTH: Final = 100

_EPILOG: Final = """\
examples:
  kraft-node                                                    a broker and its own quorum, on 127.0.0.1
  kraft-node --data-dir /srv/kraft --listen 0.0.0.0:9092 \\
      --set advertised.listeners=PLAINTEXT://kafka.example.org:9092
  kraft-node --config server.properties --set num.partitions=6  Kafka's own file, one value changed
  KAFKA_NUM_PARTITIONS=6 kraft-node                             the environment as Kafka's image reads it

An option or --set wins over the last --config, which wins over the first, then come the environment and the
defaults. `kraft docs configuration` explains every key. `kraft --help` is the command to administer a cluster.
Exit codes: 0 stopped as asked, 1 a fault (the last line says which), 2 unusable configuration.
"""


class Invocation(NamedTuple):
    """A parsed command line: options in order with their texts, --set pairs, paths of --config, and the format
    options."""

    options: list[tuple[str, str]]
    sets: list[str]
    config_paths: list[str]
    format_options: FormatOptions
    workers: int | None = None
    """Number of nodes on this machine; None: this process is the node."""


def parse_command_line(arguments: Sequence[str]) -> Invocation:
    """Parse the command line. Exits with 0 for --help and --version, with 2 for an unknown option."""
    parsed = _parser().parse_args(list(arguments))
    options = [
        (f"--{name.replace('_', '-')}", text)
        for name, texts in vars(parsed).items()
        if name not in ("set", "config", "format", "workers") and name not in FormatOptions.__dataclass_fields__
        for text in texts
    ]
    if parsed.format:
        options.append(("--format", "true"))
    return Invocation(options, parsed.set, parsed.config, _format_options(parsed), parsed.workers)


def _format_options(parsed: argparse.Namespace) -> FormatOptions:
    return FormatOptions(
        add_scram=tuple(parsed.add_scram),
        features=tuple(parsed.features),
        release_version=parsed.release_version,
        standalone=parsed.standalone,
        initial_controllers=parsed.initial_controllers,
        no_initial_controllers=parsed.no_initial_controllers,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kraft-node",
        usage="kraft-node [options]",
        description=(
            "Runs one node of a Kafka-compatible cluster: a broker, a controller, or both.\nWith nothing else it "
            "formats ./kraft-data and serves."
        ),
        epilog=_EPILOG,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=36, width=_HELP_WIDTH
        ),
        allow_abbrev=False,
        add_help=False,
    )
    node = parser.add_argument_group("the node")
    _add(node, "--role", "ROLES", "broker, controller, or broker,controller (default: both)")
    _add(node, "--node-id", "N", "the node's number, unlike any other in the cluster (1)")
    _add(node, "--data-dir", "DIR", "where logs and metadata live (./kraft-data)")
    _add(node, "--listen", "HOST:PORT", "where Kafka clients connect; port 0 picks one (127.0.0.1:9092)")
    _add(node, "--controller-listen", "HOST:PORT", "where the quorum talks (127.0.0.1:9093)")
    _add(node, "--admin", "HOST:PORT|off", "the HTTP admin: status page, REST, health, metrics (127.0.0.1:9644)")
    quorum = parser.add_argument_group("several nodes")
    _add(quorum, "--voters", "1@h:p,2@h:p,..", "the members of a fixed quorum, the same on every node")
    _add(
        quorum,
        "--bootstrap-controllers",
        "h:p,..",
        "how a node finds its quorum, for brokers and for quorums that change",
    )
    workers = "so many nodes on this machine, each a process: ids and ports count up from those given"
    quorum.add_argument("--workers", metavar="N", type=int, help=workers)
    _add(quorum, "--cluster-id", "ID", "the cluster that this node belongs to (22 characters)")
    formats = "format an empty directory although the quorum has other members; for throwaway clusters and tests"
    quorum.add_argument("--format", action="store_true", help=formats)
    _add_format_options(parser.add_argument_group("what to begin with, if it formats at this start (as kafka-storage)"))
    other = parser.add_argument_group("configuration and logs")
    file_help = "a properties file with Kafka's own keys; may be given again, later ones win"
    other.add_argument("--config", metavar="FILE", action="append", default=[], help=file_help)
    other.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="set a configuration key; repeatable"
    )
    _add(other, "--log-format", "console|json", "how log events are written to stderr (console)")
    _add(other, "--log-level", "LEVEL", "debug, info, warning or error (info)")
    other.add_argument(
        "--version", action="version", version=f"kraft-node {VERSION}", help="print the version and exit"
    )
    other.add_argument("-h", "--help", action="help", help="print this help and exit")
    return parser


def _add_format_options(group: argparse._ArgumentGroup) -> None:
    scram = "a SCRAM credential; may be given again"
    _add(group, "--add-scram", "MECHANISM=[name=..,password=..]", scram)
    feature = "the level of a feature; may be given again"
    group.add_argument("--feature", dest="features", metavar="NAME=LEVEL", action="append", default=[], help=feature)
    group.add_argument("--release-version", metavar="VERSION", help="use the feature levels of this release of Kafka")
    voters = group.add_mutually_exclusive_group()
    alone = "this controller is the whole quorum, and others may join it"
    voters.add_argument("--standalone", action="store_true", help=alone)
    first = "the first voters of a quorum of several"
    voters.add_argument("--initial-controllers", metavar="ID@HOST:PORT:DIRECTORY,..", help=first)
    joins = "this controller joins a quorum that there is already"
    voters.add_argument("--no-initial-controllers", action="store_true", help=joins)


def _add(group: argparse._ArgumentGroup, name: str, metavar: str, explanation: str) -> None:
    """Add an option that keeps every text it is given: two different texts for a key are an error, which names both."""
    group.add_argument(name, metavar=metavar, action="append", default=[], help=explanation)
