"""`kraft reassignments`: moving partitions between brokers, with the JSON files of Kafka's
kafka-reassign-partitions."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kraft.admin import cluster as brokers
from kraft.admin import moves, topics
from kraft.admin.copying import Copy, bytes_left, replica_sizes
from kraft.admin.move_troubles import move_facts, troubles
from kraft.admin.moves import Move, Outcome
from kraft.admin.reassignment_plan import Place, Plan, PlanBroker, spread
from kraft.admin.throttles import (
    Throttle,
    begin_moves,
    cancel_moves,
    describe_throttle,
    remove_throttle,
    throttle_moves,
    visible_throttle,
)
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout
from kraft.cli.admin.output import Table, say, show, size, unanswered_document, warn, warn_of_unanswered, write
from kraft.cli.admin.running import FAILED, NOT_FOUND, NotFound, ask, complain
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.rpc_client.cluster import Cluster

app = typer.Typer(
    help="Move partitions between brokers: plan, start, follow and cancel moves.",
    no_args_is_help=True,
    add_completion=False,
)

NOT_NEEDED = name_of(ErrorCode.ELECTION_NOT_NEEDED)
NO_PARTITION = name_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

ThrottleOption = Annotated[
    int | None,
    typer.Option(
        "--throttle",
        metavar="BYTES",
        min=1,
        help=(
            "Limit of replication for the moves, in bytes a second: what each broker sends, and what it "
            "receives. It stays until `kraft reassignments throttle --remove`."
        ),
    ),
]
File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Plan in Kafka's JSON format; - reads standard input.", show_default=False),
]


@app.command("list")
def list_all(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Show the moves in progress. Prints a warning if a throttle is left over."""

    async def question(cluster: Cluster) -> tuple[list[dict[str, Any]], Throttle | None, dict[int, str]]:
        throttle = await visible_throttle(cluster)
        found = await _progress(cluster, await moves.list_moves(cluster), throttle)
        return found, throttle, dict(sorted(cluster.silent.items()))

    found, throttle, silent = ask(bootstrap, timeout, question)
    rows = [
        (
            each["topic"],
            each["partition"],
            each["replicas"],
            each["adding"],
            each["removing"],
            each["lag"],
            None if each["bytes_left"] is None else size(each["bytes_left"]),
        )
        for each in found
    ]
    show(
        {
            "reassignments": found,
            "throttle": _throttle_document(throttle),
            "unanswered_brokers": unanswered_document(silent),
        },
        [Table(("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING", "TO COPY", "BYTES"), rows)],
        output,
    )
    warn_of_unanswered(silent)
    for each in found:
        for trouble in each["troubles"]:
            warn(f"kraft: {each['topic']}-{each['partition']}: {trouble}")
    if not found and throttle is not None and throttle.is_set and not throttle.leaving:
        warn("kraft: finished, but a throttle is still set: remove it with kraft reassignments throttle --remove")


def _throttle_document(throttle: Throttle | None) -> dict[str, Any] | None:
    if throttle is None or not throttle.is_set:
        return None
    return {
        "brokers": [{"node_id": node_id, "bytes_per_second": rate} for node_id, rate in throttle.rates.items()],
        "topics": list(throttle.topics),
    }


async def _progress(cluster: Cluster, under_way: Sequence[Move], throttle: Throttle | None) -> list[dict[str, Any]]:
    """Return one document for each move. It has the largest lag in records of the replicas that are being added, the
    bytes that these replicas still lack (None if unknown), and the reasons why the move makes no progress."""
    if not under_way:
        return []
    described = {
        topic.name: topic
        for topic in await topics.describe_topics(cluster, sorted({move.partition.topic for move in under_way}))
    }
    leaders = {
        move.partition: described[move.partition.topic].partition(move.partition.partition).leader for move in under_way
    }
    asked: dict[int, list[TopicPartition]] = {}
    for move in under_way:
        for node_id in (leaders[move.partition], *move.adding):
            if node_id >= 0:
                asked.setdefault(node_id, []).append(move.partition)
    ends = await moves.replica_offsets(cluster, asked)
    sizes = await replica_sizes(cluster, asked)
    copies = [
        Copy(move.partition, leaders[move.partition], node_id)
        for move in under_way
        for node_id in move.adding
        if node_id not in described[move.partition.topic].partition(move.partition.partition).in_sync
    ]
    stuck = troubles(copies, await move_facts(cluster, copies, ends, sizes, throttle))
    found = []
    for move in under_way:
        end = ends.get((leaders[move.partition], move.partition))
        lags = [
            end - ends[node_id, move.partition]
            for node_id in move.adding
            if end is not None and (node_id, move.partition) in ends
        ]
        lacking = [bytes_left(Copy(move.partition, leaders[move.partition], node_id), sizes) for node_id in move.adding]
        known = [each for each in lacking if each is not None]
        found.append(
            {
                **_place(move.partition),
                "replicas": list(move.replicas),
                "adding": list(move.adding),
                "removing": list(move.removing),
                "lag": max(0, *lags, 0) if len(lags) == len(move.adding) else None,
                "bytes_left": sum(known) if len(known) == len(lacking) else None,
                "troubles": stuck.get(move.partition, []),
            }
        )
    return found


def _place(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


@app.command(epilog="Example: kraft reassignments plan flights --broker 1 --broker 2 --undo back.json > moves.json")
def plan(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC...]", help="Only these topics. (default: all)", show_default=False),
    ] = None,
    broker: Annotated[
        list[int] | None,
        typer.Option(
            "--broker", metavar="ID", help="Broker that may get replicas. Repeatable. (default: all live brokers)"
        ),
    ] = None,
    undo: Annotated[
        Path | None, typer.Option("--undo", metavar="FILE", help="First write a plan that reverts the moves to FILE.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Print a file that spreads topics evenly over brokers with as few moves as possible, for `kraft reassignments
    start`.

    Partitions with more replicas than there are brokers are left out, with a message. Exits with 1 if those are all.
    """
    if undo is not None:
        _expect_writable(undo)

    async def question(cluster: Cluster) -> tuple[Plan, dict[Place, tuple[int, ...]], list[int]]:
        known = {each.node_id: each for each in (await brokers.describe_cluster(cluster)).brokers}
        missing = [node_id for node_id in broker or () if node_id not in known]
        if missing:
            raise NotFound(f"there is no broker {missing[0]}", f"there are {', '.join(map(str, known))}")
        chosen = (
            [known[node_id] for node_id in dict.fromkeys(broker)]
            if broker
            else [each for each in known.values() if not each.is_fenced]
        )
        found = await (topics.describe_topics(cluster, names) if names else topics.list_topics(cluster))
        current = {(topic.name, each.index): each.replicas for topic in found for each in topic.partitions}
        return (
            spread(current, [PlanBroker(each.node_id, each.rack) for each in chosen]),
            current,
            [each.node_id for each in chosen],
        )

    planned, current, chosen = ask(bootstrap, timeout, question)
    for line in _left_out({place: len(current[place]) for place in planned.impossible}, chosen):
        warn(f"kraft: left out: {line}")
    if planned.impossible and len(planned.impossible) == len(current):
        raise typer.Exit(FAILED)
    if undo is not None:
        try:
            undo.write_text(_file({place: current[place] for place in planned.moves}), encoding="utf-8")
        except OSError as problem:
            raise typer.Exit(complain(KraftError(f"--undo {undo}: {problem.strerror}"))) from problem
    write(_file(planned.moves))


def _expect_writable(path: Path) -> None:
    """Check that the undo file can be written, before the plan is made. Its content is kept. Raises typer.BadParameter
    (exit 2)."""
    was_there = path.exists()
    try:
        path.open("ab").close()
    except OSError as problem:
        raise typer.BadParameter(f"{path}: {problem.strerror}", param_hint="--undo") from problem
    if not was_there:
        path.unlink()


def _left_out(replica_counts: Mapping[Place, int], brokers: Sequence[int]) -> list[str]:
    """A line for each group of a topic's partitions that have too many replicas."""
    alike: dict[tuple[str, int], list[int]] = {}
    for (topic, index), count in sorted(replica_counts.items()):
        alike.setdefault((topic, count), []).append(index)
    there = f"{len(brokers)} broker{'s' if len(brokers) != 1 else ''} ({', '.join(map(str, brokers))})"
    return [
        (
            f"{topic}, partition{'s' if len(indexes) != 1 else ''} {', '.join(map(str, indexes))}: {count} "
            f"replicas do not fit on {there}"
        )
        for (topic, count), indexes in alike.items()
    ]


def _file(assignment: Mapping[Place, Sequence[int]]) -> str:
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(replicas)}
        for (topic, index), replicas in assignment.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions}, indent=1) + "\n"


@app.command(epilog="Example: kraft reassignments start moves.json")
def start(
    file: File,
    throttle: ThrottleOption = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Start the moves of a file. Exits with 1 if one is rejected; the others start."""
    targets = read_file(file)
    without = [str(partition) for partition, replicas in targets.items() if replicas is None]
    if without or not targets:
        raise typer.BadParameter(
            f"{file} has no {f'replicas for {without[0]}' if without else 'partitions'}", param_hint="FILE"
        )
    wanted = {partition: replicas for partition, replicas in targets.items() if replicas is not None}
    show_outcomes(ask(bootstrap, timeout, lambda cluster: begin_moves(cluster, wanted, throttle)), output)


@app.command()
def cancel(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Only the partitions of this plan.", show_default=False)
    ] = None,
    keep_throttle: Annotated[
        bool, typer.Option("--keep-throttle", help="Keep the throttle after the last move. By default it is removed.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Cancel the moves in progress: partitions get back their former replicas."""
    named = None if file is None else list(read_file(file))

    show_outcomes(
        ask(bootstrap, timeout, lambda cluster: cancel_moves(cluster, named, keep_throttle=keep_throttle)), output
    )


@app.command(epilog="Example: kraft reassignments throttle 50000000")
def throttle(
    rate: Annotated[
        int | None,
        typer.Argument(
            metavar="[BYTES]",
            min=1,
            help="Bytes a second that each broker sends, and that each receives, for moves.",
            show_default=False,
        ),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the throttle, also while moves are in progress.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Set the throttle of the moves in progress, or show it. It stays until it is removed."""
    if remove and rate is not None:
        raise typer.BadParameter("takes no rate", param_hint="--remove")

    if remove:
        ask(bootstrap, timeout, remove_throttle)
        say({"bytes_per_second": None}, "the throttle is removed", output)
    elif rate is not None:
        ask(bootstrap, timeout, lambda cluster: throttle_moves(cluster, rate))
        say({"bytes_per_second": rate}, f"each broker limits moves to {size(rate)}/s", output)
    else:
        found = ask(bootstrap, timeout, describe_throttle)
        rows = [(node_id, f"{size(bytes_per_second)}/s") for node_id, bytes_per_second in found.rates.items()]
        show({"throttle": _throttle_document(found)}, [Table(("BROKER", "THROTTLE"), rows)], output)


def show_outcomes(outcomes: Sequence[Outcome], output: Any) -> None:
    """Print one row for each partition. Exits with 1 if something was rejected, with 3 if because partitions do not
    exist. An election that was not needed counts as a success."""
    document = {
        "partitions": [
            {**_place(each.partition), "error": each.error or None, "detail": each.sentence or None}
            for each in outcomes
        ]
    }
    rows = [(each.partition.topic, each.partition.partition, each.error or "ok", each.sentence) for each in outcomes]
    show(document, [Table(("TOPIC", "PARTITION", "RESULT", "DETAIL"), rows)], output)
    refused = {each.error for each in outcomes} - {"", NOT_NEEDED}
    if refused:
        raise typer.Exit(NOT_FOUND if refused == {NO_PARTITION} else FAILED)


def read_file(path: Path) -> dict[TopicPartition, list[int] | None]:
    """The partitions of Kafka's reassignment or election file, with their replicas if it has them. Raises
    typer.BadParameter (exit 2)."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        document = json.loads(text)
        entries = [
            (TopicPartition(str(each["topic"]), int(each["partition"])), each.get("replicas"))
            for each in document["partitions"]
        ]
        for partition, replicas in entries:
            if replicas is not None and not _are_brokers(replicas):
                raise ValueError(f"{json.dumps(replicas)} are not valid replicas for {partition}")
    except OSError as problem:
        raise typer.BadParameter(f"{path}: {problem.strerror}", param_hint="FILE") from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise typer.BadParameter(f"{path} is not a file of partitions: {problem}", param_hint="FILE") from problem
    found = dict(entries)
    if len(found) != len(entries):
        raise typer.BadParameter(f"{path} names a partition twice", param_hint="FILE")
    return found


def _are_brokers(replicas: Any) -> bool:
    if not isinstance(replicas, list) or not all(type(each) is int and each >= 0 for each in replicas):
        return False
    return 0 < len(replicas) == len(set(replicas))
