"""Nodes of an earlier commit, and what was acknowledged by them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from kraft.common.version import VERSION
from tests.release import tags

REPOSITORY: Final = Path(__file__).parents[2]
EARLIER_COMMIT: Final = "e0eeb51"
FORGETS_ABORTED: Final = "f34467b"
"""The last commit whose orderly stop lost the transaction index of a small log."""
READ_SECONDS_MAX: Final = 30.0


def earlier_commits() -> list[str]:
    """The commits that upgrades start at: one before any release, and the tag of the newest earlier release."""
    try:
        released = [version for version in tags.versions(REPOSITORY) if version != VERSION]
    except tags.NoGit:
        released = []  # Without git the tests of upgrades are skipped, by name.
    return [EARLIER_COMMIT, *(f"v{version}" for version in released[:1])]


class NoEarlierCommit(Exception):
    """The repository's history does not reach back to the earlier commit."""


def unpack(packed: Path, directory: Path) -> None:
    """Extract an archive of our own. The first releases of Python 3.11 know no filters."""
    with tarfile.open(packed) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(directory)


def check_out_earlier(directory: Path, commit: str = EARLIER_COMMIT) -> dict[str, str]:
    """Unpack an earlier commit. Returns the environment in which `python -m kraft.cli.node` is that commit's.

    Raises NoEarlierCommit.
    """
    directory.mkdir(parents=True)
    packed = directory / "earlier.tar"
    command = ["git", "-C", str(REPOSITORY), "archive", "-o", str(packed), commit, "kraft", "api"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        raise NoEarlierCommit(f"commit {commit} is not in this clone: fetch the whole history")
    unpack(packed, directory)
    environment = {"PYTHONPATH": f"{directory}:{directory / 'api'}", "PYTHONSAFEPATH": "1"}
    found = subprocess.run(
        [sys.executable, "-c", "import kraft.cli.node as node; print(node.__file__)"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(directory)), f"today's code runs instead: {found.stdout}"
    return environment


def read_records(bootstrap: str, topic: str, partition: int) -> list[list[Any]]:
    """[offset, key, value] of every record, a long value by its digest, from the start to the end of the partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0, "check.crcs": True})
    try:
        place = TopicPartition(topic, partition)
        low, high = consumer.get_watermark_offsets(place, timeout=READ_SECONDS_MAX)
        place.offset = low
        consumer.assign([place])
        records: list[list[Any]] = []
        deadline = time.monotonic() + READ_SECONDS_MAX
        while consumer.position([place])[0].offset < high and (not records or records[-1][0] < high - 1):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}-{partition} ends at {high}; read up to {records[-1:]}")
            for each in consumer.consume(500, 0.5):
                assert each.error() is None, each.error()
                key = each.key()
                records.append([each.offset(), None if key is None else key.decode(), _shortened(each.value())])
        return records
    finally:
        consumer.close()


def describe(bootstrap: str, topics: list[str], group: str) -> dict[str, Any]:
    """The topics' ids and own configs, the group's committed offsets, and the records by topic and partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    listed = set(admin.list_topics(timeout=READ_SECONDS_MAX).topics)
    ids, configs, records = {}, {}, {}
    described = admin.describe_topics(TopicCollection(topics))
    for topic in topics:
        found = described[topic].result(READ_SECONDS_MAX)
        ids[topic] = str(found.topic_id)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entries = admin.describe_configs([resource])[resource].result(READ_SECONDS_MAX)
        configs[topic] = {name: entry.value for name, entry in sorted(entries.items()) if entry.source == 1}
        records[topic] = {str(each.id): read_records(bootstrap, topic, each.id) for each in found.partitions}
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(READ_SECONDS_MAX)
    return {
        "topics": sorted(each for each in listed if not each.startswith("__")),
        "ids": ids,
        "configs": configs,
        "offsets": sorted([each.topic, each.partition, each.offset] for each in offsets.topic_partitions),
        "records": records,
    }


def _shortened(value: bytes) -> str:
    return value.decode() if len(value) <= 100 else hashlib.sha256(value).hexdigest()[:16]
