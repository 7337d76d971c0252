"""`kraft consume`."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import trio
import typer

from kraft.admin import topics
from kraft.admin.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, offsets_at
from kraft.cli.admin.offset_reset import parse_datetime
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, OutputFormat, line_format
from kraft.cli.admin.records import record_format
from kraft.cli.admin.records.record_format import Write
from kraft.cli.admin.running import ask
from kraft.cli.admin.wait_options import WaitOptions, until_signalled
from kraft.common.ids import TopicPartition
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.consumer import ConsumedRecord, Consumer, start_positions
from kraft.rpc_client.group_consumer import GroupConsumer, open_group_consumer
from kraft.rpc_client.share_consumer import MAX_RECORDS, ShareConsumer, open_share_consumer
from kraft.rpc_client.share_record import ShareRecord

app = typer.Typer(add_completion=False)

POLL_SECONDS = 1.0
COMMIT_SECONDS = 5.0
LOOK_SECONDS = 10.0
"""Seconds between two checks for new partitions."""
VALUE_LINES = "%s\\n"
START_HELP = (
    "beginning, end (the default), N (an offset), -N (the last N), or the first since a time: "
    "2026-01-31T08:00 (UTC without an offset) or @MS."
)
SHARE_HELP = "Consume in this share group, and accept the printed records."
UNTIL_HELP = "Exit before this: N (an offset), a time as for --offset, or end (the same as --exit)."


@app.command(epilog="Example: kraft consume flights --from-beginning --exit -f '%p %o %k %s\\n'")
def consume(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...", show_default=False)],
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Start with the oldest records.")] = False,
    offset: Annotated[str | None, typer.Option("--offset", "-o", metavar="WHERE", help=START_HELP)] = None,
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", metavar="N", min=0, help="Only this partition. Repeatable.")
    ] = [],  # noqa: B006
    count: Annotated[
        int | None, typer.Option("--count", "-c", metavar="N", min=1, help="Exit after N records.")
    ] = None,
    exit_at_end: Annotated[bool, typer.Option("--exit", "-e", help="Exit at the end of every partition.")] = False,
    until: Annotated[str | None, typer.Option("--until", metavar="WHERE", help=UNTIL_HELP)] = None,
    form: Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help=record_format.HELP)] = VALUE_LINES,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", metavar="GROUP", help="Consume in this group, and commit."),
    ] = None,
    share_group: Annotated[str | None, typer.Option("--share-group", metavar="GROUP", help=SHARE_HELP)] = None,
    committed: Annotated[
        bool, typer.Option("--read-committed", help="Skip records of aborted and open transactions.")
    ] = False,
    output: Annotated[OutputFormat | None, typer.Option("--output", help="json: the same as -f json.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Longest wait for a leader. (default: forever)"),
    ] = None,
) -> None:
    """Print records as they arrive, until interrupted."""
    _check_share_group(share_group, from_beginning, offset, partition, exit_at_end, until, group, committed)
    write = record_format.parse_format("json" if line_format(output) is OutputFormat.JSON else form)
    start = _choose_start(from_beginning, offset, group, partition)
    stop = _choose_end(exit_at_end, until, group)
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED

    async def question(cluster: Cluster) -> None:
        printer, patience = _Printer(write, count), WaitOptions(cluster, timeout)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_signalled, nursery.cancel_scope)
            described = await topics.describe_topics(cluster, names)
            if share_group is not None:
                await _read_as_share_member(cluster, share_group, names, printer, count, patience)
            elif group is not None:
                reset = EARLIEST if start == ("time", EARLIEST) else LATEST
                async with open_group_consumer(cluster, group, names, reset=reset, isolation=isolation) as member:
                    await _read_as_member(cluster, member, printer, exit_at_end, patience)
            else:
                chosen = [
                    TopicPartition(topic.name, topic.partition(each).index)
                    for topic in described
                    for each in partition or range(len(topic.partitions))
                ]
                whole = () if partition else names
                await _read_partitions(cluster, chosen, start, stop, isolation, printer, patience, whole)
            nursery.cancel_scope.cancel()

    ask(bootstrap, DEFAULT_TIMEOUT if timeout is None else timeout, question)


def _check_share_group(share_group: str | None, *others: object) -> None:
    """Check that no option is given that the share group decides. Raises typer.BadParameter (exit 2)."""
    if share_group is not None and any(others):
        raise typer.BadParameter(
            "excludes --from-beginning, --offset, --partition, --exit, --until, --group and --read-committed: where a "
            "share group starts and what it reads are settings of the group",
            param_hint="--share-group",
        )


def _choose_start(from_beginning: bool, offset: str | None, group: str | None, partition: list[int]) -> tuple[str, int]:
    """The start that the options select. Raises typer.BadParameter (exit 2)."""
    if offset is not None and (from_beginning or group is not None):
        raise typer.BadParameter("excludes --from-beginning and --group", param_hint="--offset")
    if group is not None and partition:
        raise typer.BadParameter("a group chooses partitions itself", param_hint="--partition")
    return parse_start(offset if offset is not None else "beginning" if from_beginning else "end")


def parse_start(text: str) -> tuple[str, int]:
    """("time", ms or constant), ("offset", n) or ("tail", n). Raises typer.BadParameter (exit 2)."""
    if text in ("beginning", "earliest"):
        return "time", EARLIEST
    if text.startswith("-") and text[1:].isdigit():
        return "tail", int(text[1:])
    place = _parse_place(text)
    if place is None:
        raise typer.BadParameter(
            f"{text!r} is not one of beginning, end, N, -N, @MS and 2026-01-31T08:00:00Z", param_hint="--offset"
        )
    return place


def _choose_end(exit_at_end: bool, until: str | None, group: str | None) -> tuple[str, int] | None:
    """The position at which to stop; None for never. Raises typer.BadParameter (exit 2)."""
    if until is None:
        return ("time", LATEST) if exit_at_end and group is None else None
    if exit_at_end or group is not None:
        raise typer.BadParameter("excludes --exit and --group", param_hint="--until")
    place = _parse_place(until)
    if place is None:
        raise typer.BadParameter(f"{until!r} is not one of end, N, @MS and 2026-01-31T08:00:00Z", param_hint="--until")
    return place


def _parse_place(text: str) -> tuple[str, int] | None:
    if text in ("end", "latest"):
        return "time", LATEST
    if text.startswith("@") and text[1:].isdigit():
        return "time", int(text[1:])
    if text.isdigit():
        return "offset", int(text)
    try:
        return "time", parse_datetime(text)
    except typer.BadParameter:
        return None


async def _ends(
    cluster: Cluster, partitions: list[TopicPartition], stop: tuple[str, int], isolation: int
) -> dict[TopicPartition, int]:
    """The offset at which to stop in each partition, exclusive."""
    kind, number = stop
    if kind == "offset":
        return dict.fromkeys(partitions, number)
    return await start_positions(cluster, partitions, number, isolation=isolation)


async def _begin(
    cluster: Cluster, partitions: list[TopicPartition], start: tuple[str, int], isolation: int
) -> dict[TopicPartition, int]:
    kind, number = start
    if kind == "time":
        return await start_positions(cluster, partitions, number, isolation=isolation)
    begins, ends = (
        await offsets_at(cluster, partitions, EARLIEST),
        await offsets_at(cluster, partitions, LATEST, isolation=isolation),
    )
    if kind == "offset":
        return {partition: _within(partition, number, begins[partition], ends[partition]) for partition in partitions}
    return {partition: max(begins[partition], ends[partition] - number) for partition in partitions}


def _within(partition: TopicPartition, offset: int, begin: int, end: int) -> int:
    """The offset, or the end of the log if the log does not have it, as in Kafka's console consumer. Warns, so that
    those records are not mistaken for the requested ones."""
    if begin <= offset <= end:
        return offset
    sys.stderr.write(
        f"kraft: offset {offset} is out of range for {partition}, which has {begin} to {end}: starting at its "
        f"end, {end}\n"
    )
    return end


class _Printer:
    """Writes records to stdout, up to the requested number."""

    def __init__(self, write: Write, count: int | None) -> None:
        self._write = write
        self._left = count

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def print(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        """Write records, and return those written: all, or as many as the requested number still permits."""
        if self._left is not None:
            records = records[: self._left]
            self._left -= len(records)
        if records:
            sys.stdout.buffer.write(b"".join([self._write(record) for record in records]))
            sys.stdout.buffer.flush()
        return records


async def _read_partitions(
    cluster: Cluster,
    chosen: list[TopicPartition],
    start: tuple[str, int],
    stop: tuple[str, int] | None,
    isolation: int,
    printer: _Printer,
    patience: WaitOptions,
    whole: Sequence[str],
) -> None:
    """Read partitions without a group, from `start` to `stop`. `whole` is as in `_read`."""
    consumer = Consumer(cluster, isolation=isolation, reset=EARLIEST)
    # Says at once who is away, where _begin would try for long first.
    await patience.keep(lambda: cluster.by_leader(chosen))
    consumer.assign(await patience.keep(lambda: _begin(cluster, chosen, start, isolation)))
    ends = {} if stop is None else await patience.keep(lambda: _ends(cluster, chosen, stop, isolation))
    await _read(consumer, printer, ends, patience, whole)


async def _read(
    consumer: Consumer,
    printer: _Printer,
    ends: Mapping[TopicPartition, int],
    patience: WaitOptions,
    whole: Sequence[str] = (),
) -> None:
    """Read partitions to their `ends`; those without an end are read for ever. Without `ends` the command waits for a
    deleted topic to be created again, and reads partitions that are added to the topics in `whole`."""
    clock = consumer.cluster.world.clock
    look_at = clock.now() + LOOK_SECONDS
    while not printer.is_done:
        for partition in [
            each for each, end in ends.items() if each in consumer.positions and consumer.positions[each] >= end
        ]:
            consumer.unassign(partition)
        if not consumer.assigned:
            return
        found = await patience.keep(lambda: consumer.poll_or_tell(POLL_SECONDS), for_topics=not ends)
        printer.print([each for each in found if each.record.offset < ends.get(each.partition, math.inf)])
        if consumer.missed is not None:
            if ends:
                raise consumer.missed  # Its end, up to which it was to be read, is gone.
            patience.tell(str(consumer.missed))
            consumer.missed = None
        if whole and not ends and clock.now() >= look_at:
            known = await patience.keep(lambda: consumer.cluster.metadata(whole))
            consumer.add(each for topic in known.topics.values() for each in topic.topic_partitions())
            look_at = clock.now() + LOOK_SECONDS


async def _read_as_member(
    cluster: Cluster, member: GroupConsumer, printer: _Printer, exit_at_end: bool, patience: WaitOptions
) -> None:
    """Read as a group member. Positions are committed periodically and at the end; records that were fetched and not
    printed (-c) are not committed."""
    clock = cluster.world.clock
    commit_at = clock.now() + COMMIT_SECONDS

    async def poll() -> list[ConsumedRecord]:
        # Says at once that there is none, where joining would try for minutes.
        await cluster.coordinator(member.membership.group_id)
        return await member.poll_or_tell(POLL_SECONDS)

    while not printer.is_done:
        found = await patience.keep(poll, for_topics=not exit_at_end)
        printed = printer.print(found)
        for skipped in reversed(found[len(printed) :]):
            member.consumer.seek(skipped.partition, skipped.record.offset)
        if exit_at_end and member.is_at_end:
            return
        if clock.now() >= commit_at:
            await patience.keep(member.commit)
            commit_at = clock.now() + COMMIT_SECONDS


async def _read_as_share_member(
    cluster: Cluster, group: str, names: list[str], printer: _Printer, count: int | None, patience: WaitOptions
) -> None:
    """Read as a member of a share group. Each printed record is accepted; records that were acquired and not printed
    are released. Acknowledgements that failed are reported at the end: those records are delivered again."""
    most = MAX_RECORDS if count is None else min(count, MAX_RECORDS)
    jobs: ShareConsumer | None = None
    try:
        async with open_share_consumer(
            cluster, group, names, explicit=True, max_records=most, record_limit=count is not None
        ) as jobs:
            poll = partial(_poll_share_member, jobs)
            while not printer.is_done:
                found = await patience.keep(poll, for_topics=True)
                printed = printer.print(
                    [
                        ConsumedRecord(each.partition, each.leader_epoch, each.timestamp_type, each.record)
                        for each in found
                    ]
                )
                for each in found[: len(printed)]:
                    jobs.accept(each)
    finally:
        for failure in () if jobs is None else jobs.failed.values():
            sys.stderr.write(f"kraft: {failure}\n")


async def _poll_share_member(jobs: ShareConsumer) -> list[ShareRecord]:
    """Poll once. Raises the error that prevented fetching."""
    found = await jobs.poll(POLL_SECONDS)
    if not found and jobs.obstacle is not None:
        raise jobs.obstacle
    return found
