"""`kraft mirror`: copies topics from one cluster to another, without Spark."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from functools import partial
from typing import Annotated, Final

import trio
import typer

from kraft.cli.admin.command_config import read_client_security
from kraft.cli.admin.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    Bootstrap,
    Codec,
    Output,
    Timeout,
    parse_bootstrap,
)
from kraft.cli.admin.output import Table, show
from kraft.cli.admin.running import ask
from kraft.cli.admin.wait_options import until_signalled
from kraft.common.errors import ConfigurationError
from kraft.mirror.mirror import Mirror, Outcome
from kraft.mirror.mirror_config import MirrorConfig, Notice, Step
from kraft.mirror.names import NAME, chosen_groups, chosen_topics
from kraft.rpc_client.client_keys import ClientSecurity
from kraft.rpc_client.cluster import Cluster
from kraft.world.real import RealWorld

app = typer.Typer(add_completion=False)

SAID_SECONDS: Final = 5.0
"""Seconds between two lines of progress."""
CONNECT_SECONDS: Final = 5.0


Names = Annotated[list[str] | None, typer.Argument(metavar="TOPIC", show_default=False)]
To = Annotated[str, typer.Option("--to", metavar="HOST:PORT,..", help="Addresses of the target cluster.")]
TopicsPattern = Annotated[
    str | None,
    typer.Option(
        "--topics-pattern",
        metavar="REGEX",
        help="Mirror every topic whose whole name matches, also topics created later.",
    ),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Continue until stopped.")]
GroupsPattern = Annotated[
    str | None,
    typer.Option(
        "--groups-pattern",
        metavar="REGEX",
        help="Translate the offsets of these consumer groups, and commit them in the target cluster.",
    ),
]
ToConfig = Annotated[
    str | None,
    typer.Option("--to-command-config", metavar="FILE", help="Kafka client keys for --to."),
]
Prefix = Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Prefix for the names of target topics.")]
Rename = Annotated[
    str | None,
    typer.Option("--target-topic", metavar="NAME", help="Name of the target topic. Only with a single TOPIC."),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Name under which the progress is stored. (default: made of the source and the topics)",
    ),
]
Replicas = Annotated[
    int, typer.Option("--replication-factor", metavar="N", help="Replicas of created topics; -1: as in the source.")
]
NoConfigs = Annotated[
    bool,
    typer.Option(
        "--no-configs", help="Create topics with the target cluster's defaults instead of the source's configuration."
    ),
]
ReadUncommitted = Annotated[
    bool, typer.Option("--read-uncommitted", help="Copy records of aborted and open transactions, too.")
]
SkipLost = Annotated[
    bool,
    typer.Option(
        "--skip-lost", help="Continue, with a warning, if records were deleted from the source before they were copied."
    ),
]


@app.command(epilog="Example: kraft mirror -b west:9092 --to east:9092 --topics-pattern 'orders.*' --follow")
def mirror(
    to: To,
    names: Names = None,
    pattern: TopicsPattern = None,
    follow: Follow = False,
    groups: GroupsPattern = None,
    to_config: ToConfig = None,
    prefix: Prefix = "",
    rename: Rename = None,
    name: Name = None,
    codec: Annotated[Codec, typer.Option("--codec", "-z", help="Compression of target batches.")] = Codec.NONE,
    replication_factor: Replicas = -1,
    no_configs: NoConfigs = False,
    read_uncommitted: ReadUncommitted = False,
    skip_lost: SkipLost = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Copy topics to another cluster: same partitions, keys, headers and timestamps, each record once. Run it again to
    copy later records."""
    topics = tuple(dict.fromkeys(names or ()))
    _check(topics, pattern, groups, rename, prefix, name)
    wish = MirrorConfig(
        name=name or "",
        topics=topics,
        pattern=pattern,
        prefix=prefix,
        rename=rename,
        groups=groups,
        codec=codec.number,
        replication_factor=replication_factor,
        configs=not no_configs,
        read_uncommitted=read_uncommitted,
        skip_lost=skip_lost,
        follow=follow,
    )
    security, addresses = _security(to_config), parse_bootstrap(to)

    async def question(source: Cluster) -> tuple[MirrorConfig, Outcome | None]:
        async with Cluster(
            RealWorld(**security._asdict()), addresses, connect_seconds=CONNECT_SECONDS, operation_seconds=timeout
        ) as target:
            await target.features()  # Fails immediately if no broker answers.
            return await _mirror(source, target, wish, _Sayer(source, quiet=quiet))

    done, outcome = ask(bootstrap, timeout, question)
    if outcome is None:
        return
    document = {"mirror": done.name, "to": to, **outcome._asdict()}
    show(document, [Table(("FACT", "VALUE"), list(document.items()))], output)


async def _mirror(
    source: Cluster, target: Cluster, wish: MirrorConfig, say: _Sayer
) -> tuple[MirrorConfig, Outcome | None]:
    """Mirror the topics. The outcome is None if it was interrupted."""
    if not wish.name:
        cluster_id = (await source.metadata(())).cluster_id or source.bootstrap[0][0]
        facts = [cluster_id, sorted(wish.topics), wish.pattern, wish.prefix, wish.rename]
        wish = replace(wish, name=hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12])
    outcome: Outcome | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(until_signalled, nursery.cancel_scope)
        outcome = await Mirror(source, target, wish, say).run()
        nursery.cancel_scope.cancel()
    return wish, outcome


def _check(
    topics: tuple[str, ...], pattern: str | None, groups: str | None, rename: str | None, prefix: str, name: str | None
) -> None:
    """Check that the options fit together. Raises typer.BadParameter (exit 2)."""
    if bool(topics) == (pattern is not None):
        raise typer.BadParameter("give topics, or --topics-pattern", param_hint="TOPIC / --topics-pattern")
    if rename is not None and (len(topics) != 1 or prefix):
        raise typer.BadParameter("is for one TOPIC, without --prefix", param_hint="--target-topic")
    if name is not None and not NAME.fullmatch(name):
        raise typer.BadParameter(f"{name!r} is not of 1 to 100 letters, digits, _ and -", param_hint="--name")
    for option, given, choose in (
        ("--topics-pattern", pattern, partial(chosen_topics, (), ())),
        ("--groups-pattern", groups, partial(chosen_groups, ())),
    ):
        if given is not None:
            try:
                choose(given)
            except ValueError as problem:
                raise typer.BadParameter(str(problem), param_hint=option) from problem


def _security(path: str | None) -> ClientSecurity:
    """The security settings of the target cluster. Raises typer.BadParameter (exit 2)."""
    if path is None:
        return ClientSecurity()
    try:
        return read_client_security(path)
    except ConfigurationError as problem:
        raise typer.BadParameter(str(problem), param_hint="--to-command-config") from problem


class _Sayer:
    """Prints progress on stderr periodically, and notices immediately."""

    def __init__(self, source: Cluster, *, quiet: bool) -> None:
        self._clock = source.world.clock
        self._quiet = quiet
        self._said_at = self._clock.now()
        self._said = 0

    def __call__(self, told: Step | Notice) -> None:
        if isinstance(told, Notice):
            if told.is_warning or not self._quiet:
                self._write(f"warning: {told.text}" if told.is_warning else told.text)
            return
        seconds = self._clock.now() - self._said_at
        if seconds >= SAID_SECONDS and not self._quiet:
            rate = (told.records - self._said) / seconds
            self._write(f"{told.records:,} records, {rate:,.0f} a second, {told.behind:,} offsets behind")
            self._said_at, self._said = self._clock.now(), told.records

    def _write(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
