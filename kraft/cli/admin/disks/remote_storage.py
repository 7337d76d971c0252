"""`kraft storage remote`: compares the object store of tiered topics with the cluster's metadata."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from kraft.admin.metadata import Topic
from kraft.admin.offsets import LATEST, READ_COMMITTED, offsets_at
from kraft.admin.topics import describe_topic
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout
from kraft.cli.admin.output import Table, show, warn
from kraft.cli.admin.running import FAILED, ask
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.common.internal_topics import REMOTE_LOG_METADATA_TOPIC
from kraft.remote.metadata_manager import ReadRecords
from kraft.remote.segment_copies import MetadataNotWritten
from kraft.remote.store_verification import StoreVerification
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.consumer import Consumer
from kraft.world.ports import ObjectError

app = typer.Typer(help="The object store of tiered topics.", no_args_is_help=True, add_completion=False)

STORE_SECONDS_MAX: Final = 30.0
POLL_SECONDS: Final = 5.0


@app.callback()
def remote() -> None:
    """The object store of tiered topics."""


@app.command(epilog="Example: kraft storage remote verify --store s3://bucket/prefix --read")
def verify(
    store: Annotated[
        str,
        typer.Option(
            "--store",
            metavar="URI",
            help="URI of the object store, as in the nodes' kraft.remote.storage.uri.",
            show_default=False,
        ),
    ],
    read: Annotated[
        bool, typer.Option("--read", help="Read every segment, and compare the offsets and CRCs of its batches.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Compare the cluster's metadata with the content of the store. Exits with 1 if they differ. Nothing is changed."""

    async def question(cluster: Cluster) -> StoreVerification:
        try:
            objects = cluster.world.objects.open(store, timeout_seconds=STORE_SECONDS_MAX)
            topic = await describe_topic(cluster, REMOTE_LOG_METADATA_TOPIC)
            verification = StoreVerification(_MetadataTopic(cluster, topic), objects, reads=read)
            await verification.run()
        except (ObjectError, ValueError) as problem:
            raise KraftError(f"{store}: {problem}") from problem
        return verification

    found = ask(bootstrap, timeout, question)
    document = {
        "segment_count": found.segment_count,
        "object_count": found.object_count,
        "finding_count": found.finding_count,
        "findings": [each._asdict() for each in found.findings],
    }
    title = f"{found.segment_count} segments, {found.object_count} objects, {found.finding_count} findings"
    show(document, [Table(("KIND", "NAME", "DETAIL"), found.findings, title)], output)
    if found.finding_count:
        warn(f"the store differs from {REMOTE_LOG_METADATA_TOPIC}: {found.finding_count} findings")
        raise typer.Exit(FAILED)


class _MetadataTopic:
    """A read-only implementation of `kraft.remote.metadata_manager.MetadataTopic`."""

    def __init__(self, cluster: Cluster, topic: Topic) -> None:
        self.partition_count = len(topic.partitions)
        self.topic_id = topic.topic_id
        self._cluster = cluster
        self._consumer = Consumer(cluster, isolation=READ_COMMITTED)

    async def append(self, partition: int, value: bytes) -> int:
        raise MetadataNotWritten(f"{REMOTE_LOG_METADATA_TOPIC}-{partition} is read only here")

    async def read(self, partition: int, offset: int) -> ReadRecords:
        place = TopicPartition(REMOTE_LOG_METADATA_TOPIC, partition)
        if dict(self._consumer.positions) != {place: offset}:
            self._consumer.assign({place: offset}, topic_ids={place.topic: self.topic_id})
        found = await self._consumer.poll_or_tell(POLL_SECONDS)
        records = [(each.record.offset, bytes(each.record.value or b"")) for each in found]
        return ReadRecords(records, self._consumer.positions[place])

    async def end_offset(self, partition: int) -> int:
        place = TopicPartition(REMOTE_LOG_METADATA_TOPIC, partition)
        return (await offsets_at(self._cluster, [place], LATEST, isolation=READ_COMMITTED))[place]
