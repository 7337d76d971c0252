"""`kraft transactions`."""

from __future__ import annotations

from typing import Annotated

import typer

from kraft.admin import topics, transactions
from kraft.admin.transactions import HangingTransaction, Transaction
from kraft.cli.admin.elections import parse_partition
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout, Yes, confirm
from kraft.cli.admin.output import Table, moment, say, show
from kraft.cli.admin.running import NotFound, ask
from kraft.client.cluster import Cluster
from kraft.common.ids import TopicPartition
from kraft.protocol.messages.describe_producers_response import ProducerState

app = typer.Typer(
    help="Transactions: who has one open, and ending one that hangs.", no_args_is_help=True, add_completion=False
)

Place = Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", show_default=False)]


@app.command("list", epilog="Example: kraft transactions list --state Ongoing --open-for 60")
def list_all(
    state: Annotated[list[str], typer.Option("--state", metavar="STATE", help="As Ongoing; may be given again.")] = [],  # noqa: B006 - only read.
    open_for: Annotated[
        float | None, typer.Option("--open-for", metavar="SECONDS", min=0, help="Begun longer ago than that.")
    ] = None,
    match: Annotated[
        str | None, typer.Option("--match", metavar="EXPRESSION", help="Ids that this regular expression describes.")
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
    """Show whose a transactional id is, and which partitions its open transaction has."""

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
            each.timeout_ms,
            None if each.started_ms is None else moment(each.started_ms),
            [str(place) for place in each.partitions],
        )
        for each in found
    ]
    columns = ("TRANSACTIONAL ID", "STATE", "COORDINATOR", "PRODUCER", "TIMEOUT MS", "BEGAN", "PARTITIONS")
    show(document, [Table(columns, rows, wide=frozenset(("COORDINATOR", "TIMEOUT MS")))], output)


@app.command(epilog="Example: kraft transactions producers payments-0")
def producers(
    place: Place,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the producers that a partition knows, and where their open transactions begin."""
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
    topic: Annotated[
        list[str], typer.Option("--topic", metavar="TOPIC", help="Only in this one; may be given again.")
    ] = [],  # noqa: B006 - only read.
    open_for: Annotated[
        float,
        typer.Option(
            "--open-for", metavar="SECONDS", min=0, help="Without a record for so long: transaction.max.timeout.ms."
        ),
    ] = 900.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Find transactions that no coordinator knows of any more: they hold back readers of committed records for ever.

    Shows the command that ends each.
    """

    async def question(cluster: Cluster) -> list[HangingTransaction]:
        found = await topics.describe_topics(cluster, topic) if topic else await topics.list_topics(cluster)
        places = [
            TopicPartition(each.name, partition.index)
            for each in found
            for partition in each.partitions
            if partition.leader >= 0
        ]
        silent_since_ms = cluster.world.clock.wall_ms() - round(open_for * 1000)
        return await transactions.find_hanging(cluster, places, silent_since_ms)

    found = ask(bootstrap, timeout, question)
    document = {
        "transactions": [
            {
                "topic": each.place.topic,
                "partition": each.place.partition,
                "producer_id": each.producer.producer_id,
                "producer_epoch": each.producer.producer_epoch,
                "transactional_id": each.transactional_id,
                "start_offset": each.producer.current_txn_start_offset,
                "last_timestamp": each.producer.last_timestamp,
                "command": _ending(each),
            }
            for each in found
        ]
    }
    rows = [
        (str(each.place), each.producer.producer_id, moment(each.producer.last_timestamp), _ending(each))
        for each in found
    ]
    show(document, [Table(("PARTITION", "PRODUCER", "LAST RECORD", "WHAT ENDS IT"), rows)], output)


def _ending(hanging: HangingTransaction) -> str:
    return f"kraft transactions abort {hanging.place} --start-offset {hanging.producer.current_txn_start_offset}"


@app.command(epilog="Example: kraft transactions abort payments-0 --start-offset 4711")
def abort(
    place: Place,
    start_offset: Annotated[
        int,
        typer.Option(
            "--start-offset", metavar="OFFSET", min=0, help="Where it begins (kraft transactions producers shows it)."
        ),
    ],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Abort a transaction that hangs in one partition, whatever its coordinator says. Its records there are never read
    as committed."""
    partition = parse_partition(place)

    async def find(cluster: Cluster) -> ProducerState:
        return await _opened_at(cluster, partition, start_offset)

    producer = ask(bootstrap, timeout, find)
    confirm(
        f"Abort the transaction of producer {producer.producer_id} in {partition}? If its coordinator commits it "
        "elsewhere, it is torn apart.",
        yes,
    )

    async def act(cluster: Cluster) -> None:
        await transactions.abort_in_partition(cluster, partition, await _opened_at(cluster, partition, start_offset))

    ask(bootstrap, timeout, act)
    document = {
        "topic": partition.topic,
        "partition": partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "start_offset": start_offset,
    }
    say(document, f"aborted in {partition}: the transaction of producer {producer.producer_id}", output)


async def _opened_at(cluster: Cluster, partition: TopicPartition, start_offset: int) -> ProducerState:
    for producer in await transactions.active_producers(cluster, partition):
        if _begin(producer) == start_offset:
            return producer
    raise NotFound(
        f"{partition}: no transaction begins at offset {start_offset} and is open",
        f"`kraft transactions producers {partition}` shows those there are",
    )
