"""`kraft transactions`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from kraft.admin import topics, transactions
from kraft.admin.errors import Refused
from kraft.admin.transactions import OpenTransaction, Transaction
from kraft.cli.admin.cluster.elections import parse_partition
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout, Yes, confirm
from kraft.cli.admin.output import Table, moment, say, show
from kraft.cli.admin.running import NotFound, ask
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_producers_response import ProducerState
from kraft.rpc_client.cluster import Cluster

app = typer.Typer(
    help="Transactions: show open ones, and end a hanging one.", no_args_is_help=True, add_completion=False
)

ONGOING: Final = "Ongoing"
SILENT_SECONDS: Final = 30.0
"""A live producer has usually written a record within this time."""
ANY_TIME_MS: Final = 2**63 - 1
NEVER: Final = "never (two-phase commit)"
"""Shown as the timeout of a transaction that an outside coordinator ends (KIP-939)."""

Place = Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", show_default=False)]


@app.command("list", epilog="Example: kraft transactions list --state Ongoing --open-for 60")
def list_all(
    state: Annotated[
        list[str], typer.Option("--state", metavar="STATE", help="Only in this state, such as Ongoing. Repeatable.")
    ] = [],  # noqa: B006 - only read.
    open_for: Annotated[
        float | None,
        typer.Option("--open-for", metavar="SECONDS", min=0, help="Only transactions that have been open for longer."),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(
            "--match", metavar="EXPRESSION", help="Only transactional ids that match this regular expression."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show every transactional id."""
    open_for_ms = -1 if open_for is None else int(open_for * 1000)
    found = ask(bootstrap, timeout, lambda cluster: transactions.list_transactions(cluster, state, open_for_ms, match))
    document = {
        "transactions": [
            {
                "transactional_id": each.transactional_id,
                "state": each.state,
                "coordinator": each.coordinator,
                "producer_id": each.producer_id,
            }
            for each in found
        ]
    }
    rows = [(each.transactional_id, each.state, each.coordinator, each.producer_id) for each in found]
    show(document, [Table(("TRANSACTIONAL ID", "STATE", "COORDINATOR", "PRODUCER"), rows)], output)


@app.command(epilog="Example: kraft transactions describe orders")
def describe(
    ids: Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL-ID...", show_default=False)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the producer of a transactional id, and the partitions of its open transaction."""

    async def question(cluster: Cluster) -> list[Transaction]:
        return [await transactions.describe_transaction(cluster, each) for each in ids]

    found = ask(bootstrap, timeout, question)
    document = {
        "transactions": [
            {
                "transactional_id": each.transactional_id,
                "state": each.state,
                "coordinator": each.coordinator,
                "producer_id": each.producer_id,
                "producer_epoch": each.producer_epoch,
                "timeout_ms": each.timeout_ms,
                "two_phase": each.is_two_phase,
                "started_ms": each.started_ms,
                "partitions": [{"topic": place.topic, "partition": place.partition} for place in each.partitions],
            }
            for each in found
        ]
    }
    rows = [
        (
            each.transactional_id,
            each.state,
            each.coordinator,
            f"{each.producer_id}/{each.producer_epoch}",
            NEVER if each.is_two_phase else each.timeout_ms,
            None if each.started_ms is None else moment(each.started_ms),
            [str(place) for place in each.partitions],
        )
        for each in found
    ]
    columns = ("TRANSACTIONAL ID", "STATE", "COORDINATOR", "PRODUCER", "TIMEOUT MS", "BEGAN", "PARTITIONS")
    wide = {"COORDINATOR"} if any(each.is_two_phase for each in found) else {"COORDINATOR", "TIMEOUT MS"}
    show(document, [Table(columns, rows, wide=frozenset(wide))], output)


@app.command(epilog="Example: kraft transactions producers payments-0")
def producers(
    place: Place,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the producers of a partition, and the first offsets of their open transactions."""
    partition = parse_partition(place)
    found = ask(bootstrap, timeout, lambda cluster: transactions.active_producers(cluster, partition))
    document = {
        "producers": [
            {
                "producer_id": each.producer_id,
                "producer_epoch": each.producer_epoch,
                "coordinator_epoch": each.coordinator_epoch,
                "last_sequence": each.last_sequence,
                "last_timestamp": each.last_timestamp,
                "transaction_begins": _begin(each),
            }
            for each in found
        ]
    }
    rows = [
        (each.producer_id, each.producer_epoch, each.last_sequence, moment(each.last_timestamp), _begin(each))
        for each in found
    ]
    show(document, [Table(("PRODUCER", "EPOCH", "LAST SEQUENCE", "LAST RECORD", "OPEN SINCE OFFSET"), rows)], output)


def _begin(producer: ProducerState) -> int | None:
    return producer.current_txn_start_offset if producer.current_txn_start_offset >= 0 else None


@app.command("find-hanging", epilog="Example: kraft transactions find-hanging --topic payments")
def find_hanging(
    topic: Annotated[list[str], typer.Option("--topic", metavar="TOPIC", help="Only this topic. Repeatable.")] = [],  # noqa: B006 - only read.
    open_for: Annotated[
        float,
        typer.Option(
            "--open-for",
            metavar="SECONDS",
            min=0,
            help=(
                "Only producers without a record for so long. (default: transaction.max.timeout.ms; 30 s if a "
                "coordinator knows the transaction)"
            ),
        ),
    ] = 900.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Find transactions that block readers of committed records: those that no coordinator has (they hang for ever),
    and those that are open at their coordinator, as of a producer that died.

    Shows how to end each. A transaction of two-phase commit has no timeout: the application that prepared it ends it
    when it is started again. Abort it only if that application will not return.
    """

    async def question(cluster: Cluster) -> list[OpenTransaction]:
        found = await topics.describe_topics(cluster, topic) if topic else await topics.list_topics(cluster)
        places = [
            TopicPartition(each.name, partition.index)
            for each in found
            for partition in each.partitions
            if partition.leader >= 0
        ]
        now_ms = cluster.world.clock.wall_ms()
        longest_ms, silent_ms = round(open_for * 1000), round(min(open_for, SILENT_SECONDS) * 1000)
        return [
            each
            for each in await transactions.find_open(cluster, places, now_ms - silent_ms)
            if each.coordinated is not None or each.producer.last_timestamp < now_ms - longest_ms
        ]

    found = ask(bootstrap, timeout, question)
    hanging = [each for each in found if each.coordinated is None]
    ongoing = [each for each in found if each.coordinated is not None]
    document = {
        "transactions": [_open_document(each) for each in hanging],
        "ongoing": [_ongoing_document(each) for each in ongoing],
    }
    rows = [(str(each.place), each.producer.producer_id, _last_record(each), _ending(each)) for each in hanging]
    columns: tuple[str, ...] = ("PARTITION", "PRODUCER", "LAST RECORD", "WHAT ENDS IT")
    tables = [Table(columns, rows, "Hanging: no coordinator knows them" if ongoing else "")]
    if ongoing:
        known = [
            (str(each.place), each.transactional_id, _last_record(each), _moment_of_end(each), _ending(each))
            for each in ongoing
        ]
        columns = ("PARTITION", "TRANSACTIONAL ID", "LAST RECORD", "ENDS BY ITSELF", "WHAT ENDS IT NOW")
        tables.append(Table(columns, known, "Ongoing: open at their coordinators, which abort those with a timeout"))
    show(document, tables, output)


def _ongoing_document(found: OpenTransaction) -> dict[str, Any]:
    """The document of a transaction that is open at its coordinator."""
    return _open_document(found) | {"ends_by_itself_ms": _ends_by_itself(found), "two_phase": _is_two_phase(found)}


def _open_document(found: OpenTransaction) -> dict[str, Any]:
    return {
        "topic": found.place.topic,
        "partition": found.place.partition,
        "producer_id": found.producer.producer_id,
        "producer_epoch": found.producer.producer_epoch,
        "transactional_id": found.transactional_id,
        "start_offset": found.producer.current_txn_start_offset,
        "last_timestamp": found.producer.last_timestamp,
        "command": _ending(found),
    }


def _ends_by_itself(found: OpenTransaction) -> int | None:
    """The time in ms since 1970 at which the coordinator aborts the transaction; None if its outcome is already
    decided, or if it has no timeout."""
    known = found.coordinated
    if known is None or known.state != ONGOING or known.started_ms is None or known.is_two_phase:
        return None
    return known.started_ms + known.timeout_ms


def _last_record(found: OpenTransaction) -> str | None:
    return moment(found.producer.last_timestamp)


def _is_two_phase(found: OpenTransaction) -> bool:
    return found.coordinated is not None and found.coordinated.state == ONGOING and found.coordinated.is_two_phase


def _moment_of_end(found: OpenTransaction) -> str | None:
    if _is_two_phase(found):
        return NEVER
    ends_ms = _ends_by_itself(found)
    return None if ends_ms is None else moment(ends_ms)


def _ending(found: OpenTransaction) -> str:
    return f"kraft transactions abort {found.place} --start-offset {found.producer.current_txn_start_offset}"


@app.command(epilog="Example: kraft transactions abort payments-0 --start-offset 4711")
def abort(
    place: Place,
    start_offset: Annotated[
        int,
        typer.Option(
            "--start-offset", metavar="OFFSET", min=0, help="First offset, from `kraft transactions producers`."
        ),
    ],
    only_here: Annotated[
        bool, typer.Option("--only-here", help="Abort in this partition alone. Other partitions may be committed.")
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Abort an open transaction. A hanging one is aborted in this partition. One that is open at its coordinator is
    aborted there, in all of its partitions, and its producer is fenced. Its records are never read as committed."""
    partition = parse_partition(place)

    async def find(cluster: Cluster) -> OpenTransaction:
        return await _opened_at(cluster, partition, start_offset)

    found = ask(bootstrap, timeout, find)
    known = None if only_here else found.coordinated
    confirm(_question_of(found, known), yes)

    async def act(cluster: Cluster) -> None:
        current = await _opened_at(cluster, partition, start_offset)
        if current.coordinated is None or only_here:
            await transactions.abort_in_partition(cluster, partition, current.producer)
        elif current.coordinated.state == ONGOING:
            await transactions.end_by_fencing(cluster, current.coordinated)
        else:
            raise Refused(
                ErrorCode.INVALID_TXN_STATE,
                f"transactional id {current.transactional_id}",
                f"its outcome is decided ({current.coordinated.state}), and the coordinator keeps sending its "
                f"marker to {partition}: find out why the leader rejects the marker. "
                "--only-here aborts it in this partition alone",
            )

    ask(bootstrap, timeout, act)
    producer = found.producer
    document = {
        "topic": partition.topic,
        "partition": partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "start_offset": start_offset,
        "transactional_id": found.transactional_id,
        "aborted_at_coordinator": known is not None,
    }
    where = str(partition) if known is None else f"{_partitions(known)} by the coordinator"
    whose = f"producer {producer.producer_id}" if known is None else f"transactional id {known.transactional_id}"
    say(document, f"aborted in {where}: the transaction of {whose}", output)


def _question_of(found: OpenTransaction, known: Transaction | None) -> str:
    if known is not None and known.state == ONGOING and known.is_two_phase:
        return (
            f"This transaction of {known.transactional_id} is part of a two-phase commit. If its outside coordinator "
            f"has decided to commit it, an abort loses its records. Abort it in {_partitions(known)}?"
        )
    if known is not None:
        return (
            f"The coordinator knows this transaction of {known.transactional_id} (state {known.state}). Abort it "
            f"there, in {_partitions(known)}, and fence its producer?"
        )
    return (
        f"Abort the transaction of producer {found.producer.producer_id} in {found.place}? If its coordinator "
        "commits it in other partitions, the transaction is no longer atomic."
    )


def _partitions(known: Transaction) -> str:
    return f"all of its {len(known.partitions)} partitions" if len(known.partitions) != 1 else "its only partition"


async def _opened_at(cluster: Cluster, partition: TopicPartition, start_offset: int) -> OpenTransaction:
    for found in await transactions.find_open(cluster, [partition], ANY_TIME_MS):
        if _begin(found.producer) == start_offset:
            return found
    raise NotFound(
        f"{partition}: no transaction begins at offset {start_offset} and is open",
        f"`kraft transactions producers {partition}` shows the open transactions",
    )
