"""`kraft features`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer

from kraft.admin import features
from kraft.admin.features import Feature
from kraft.cli.admin.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    Bootstrap,
    DryRun,
    Output,
    OutputFormat,
    Timeout,
    Yes,
    confirm,
    parse_pairs,
)
from kraft.cli.admin.output import Table, say, show
from kraft.cli.admin.running import NotFound, ask
from kraft.common.features import METADATA_VERSION, TRANSACTION_VERSION, level_at_format
from kraft.common.metadata_versions import METADATA_VERSIONS, level_of_release
from kraft.rpc_client.cluster import Cluster

app = typer.Typer(
    help="Features: show, upgrade and downgrade their levels.",
    no_args_is_help=True,
    add_completion=False,
)

LEVEL_MAX = 2**15 - 1

LOST_BELOW: Mapping[str, tuple[tuple[int, str], ...]] = {
    TRANSACTION_VERSION: (
        (
            2,
            "a transaction's end no longer raises its producer's epoch: a late write may join the next one (KIP-890)",
        ),
    ),
    "eligible.leader.replicas.version": (
        (1, "partitions forget which replicas outside of the in-sync set have every acknowledged record (KIP-966)"),
    ),
    "group.version": ((1, "groups of the consumer protocol cannot be joined any more (KIP-848)"),),
    "share.version": (
        (1, "share groups are not served any more (KIP-932)"),
        (2, "records that share groups give up are not written to their dead letter topics any more (KIP-1191)"),
    ),
    "streams.version": ((1, "streams groups are not served any more (KIP-1071)"),),
}
"""By feature: each level, and what no longer works below it."""


@app.command("list", epilog="Example: kraft features list")
def list_features(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Show each feature, its level, and the levels that every live broker can run."""
    found = ask(bootstrap, timeout, features.describe_features)
    rows = [(each.name, each.level, _supported(each), _possible(each)) for each in found]
    table = Table(("FEATURE", "LEVEL", "SUPPORTED", "UPGRADE"), rows)
    show({"features": [asdict(each) for each in found]}, [table], output)


def _supported(each: Feature) -> str:
    if each.max_level < each.min_level:
        return "brokers differ"
    return str(each.max_level) if each.min_level == each.max_level else f"{each.min_level}-{each.max_level}"


def _possible(each: Feature) -> str:
    return f"to {each.max_level}" if each.max_level > each.level else "-"


@app.command(epilog="Example: kraft features upgrade transaction.version=2")
def upgrade(
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FEATURE=LEVEL...]",
            help="Features and levels. (default: every feature, to its level in a new cluster)",
            show_default=False,
        ),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option("--release-version", metavar="X.Y", help="To the levels of a release of Kafka, such as 4.3."),
    ] = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Raise levels, after every node runs a release that supports them: all of them or none.

    --release-version raises every feature that is below its level in a new cluster of that release.
    """
    asked = _levels(pairs or [])
    if pairs and release is not None:
        raise typer.BadParameter("name features, or give --release-version")
    level = None if release is None else level_of_release(release)
    if release is not None and level is None:
        known = ", ".join(each.name for each in METADATA_VERSIONS)
        raise typer.BadParameter(f"--release-version {release}: this release knows {known}")

    async def question(cluster: Cluster) -> dict[str, int]:
        wanted = asked
        if level is not None:
            wanted = features.levels_of_release(await features.describe_features(cluster), level)
        elif not wanted:
            found = await features.describe_features(cluster)
            newest = next((each.max_level for each in found if each.name == METADATA_VERSION), 0)
            usual = {each.name: level_at_format(each.name, each.max_level, newest) for each in found}
            wanted = {each.name: usual[each.name] for each in found if usual[each.name] > each.level}
        if wanted:
            await features.update_features(cluster, wanted, features.UPGRADE, validate_only=dry_run)
        return wanted

    where = "in a new cluster" if release is None else f"in a new cluster of {release}"
    _tell(ask(bootstrap, timeout, question), dry_run, output, where)


@app.command(epilog="Example: kraft features downgrade transaction.version=1 --yes")
def downgrade(
    pairs: Annotated[list[str], typer.Argument(metavar="FEATURE=LEVEL...", show_default=False)],
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Downgrade even if metadata is lost.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Lower levels, as before a return to an older release: all of them or none. Existing records stay readable."""
    wanted = _levels(pairs)
    for name, level in wanted.items():
        for needed, loss in LOST_BELOW.get(name, ()):
            if level < needed:
                typer.echo(f"warning: with {name} below {needed}, {loss}", err=True)
    if not dry_run:
        confirm(f"Lower {', '.join(wanted)}?", yes)
    kind = features.UNSAFE_DOWNGRADE if unsafe else features.SAFE_DOWNGRADE

    async def question(cluster: Cluster) -> None:
        known = {each.name for each in await features.describe_features(cluster)}
        if unknown := sorted({*wanted} - known):
            raise NotFound(f"there is no feature {unknown[0]}", "`kraft features list` shows the features there are")
        await features.update_features(cluster, wanted, kind, validate_only=dry_run)

    ask(bootstrap, timeout, question)
    _tell(wanted, dry_run, output)


def _levels(pairs: list[str]) -> dict[str, int]:
    """The levels of the arguments. Raises typer.BadParameter (exit 2)."""
    levels = {}
    for name, text in parse_pairs(pairs, "FEATURE=LEVEL").items():
        if not text.isascii() or not text.isdigit() or int(text) > LEVEL_MAX:
            raise typer.BadParameter(f"{name}: {text!r} is not a level; levels are 0 to {LEVEL_MAX}")
        levels[name] = int(text)
    return levels


def _tell(levels: dict[str, int], dry_run: bool, output: OutputFormat | None, where: str = "in a new cluster") -> None:
    words = ", ".join(f"{name}={level}" for name, level in levels.items())
    told = f"{'valid' if dry_run else 'finalized'}: {words}"
    sentence = told if levels else f"no feature is below its level {where}"
    say({"levels": levels, "dry_run": dry_run}, sentence, output)
