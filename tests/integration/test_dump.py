"""`kraft dump` beside Kafka's dump-log, on the files of a node of ours that is killed in the midst of its work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen.java.kafka import tool
from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability
from tests.integration.streams_members import StreamsMember

SECONDS_MAX = 60
STREAMS_GROUP = "words"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The log directory of a node that still runs."""
    directory = tmp_path_factory.mktemp("dump") / "node"
    keys = (
        "offsets.topic.num.partitions=1",
        "transaction.state.log.num.partitions=1",
        "group.streams.initial.rebalance.delay.ms=0",
    )
    with NodeProcess(directory, *(word for key in keys for word in ("--set", key))) as node:
        bootstrap = node.ready["kafka"]
        topic = NewTopic("flights", 1, 1, config={"index.interval.bytes": "1"})
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics([topic]).values():
            future.result(SECONDS_MAX)
        for codec in ("none", "gzip", "lz4", "zstd", "snappy"):
            producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 100})
            for number in range(30):
                producer.produce("flights", f"{codec} {number}", "key", headers={"codec": codec})
            producer.flush(SECONDS_MAX)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
        producer.init_transactions(SECONDS_MAX)
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce("flights", b"\xff\x00", None)
            producer.flush(SECONDS_MAX)
            end(SECONDS_MAX)
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
        consumer.commit(offsets=[Place("flights", 0, 7)], asynchronous=False)
        consumer.close()
        StreamsMember(bootstrap, STREAMS_GROUP, "flights")
        node.stop()  # The indexes of what is written to come to disk by that.
        node.start()
        yield directory / "data"


def dump(*arguments: str, code: int = 0) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "kraft.cli.admin.app", "dump", "-o", "json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def segment(data: Path, partition: str, ending: str = "log") -> str:
    return str(data / partition / f"00000000000000000000.{ending}")


@pytest.mark.java
@pytest.mark.parametrize("partition", ["flights-0", "__cluster_metadata-0", "__consumer_offsets-0"])
def test_dumped_batches_equal_those_kafka_finds_in_the_file(data: Path, partition: str) -> None:
    require_capability("java17")
    require_capability("mvn")
    path = segment(data, partition)
    shown = tool("dump-log", "--files", path).stdout
    wanted = re.findall(
        r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*producerId: (-?\d+) .*partitionLeaderEpoch: (\d+) "
        r".*position: (\d+) .* size: (\d+) .*compresscodec: (\w+) crc: (\d+) isvalid: true",
        shown,
        re.MULTILINE,
    )
    assert wanted, shown
    names = ("base_offset", "last_offset", "count", "producer_id", "leader_epoch", "position", "size", "codec", "crc")
    found = [tuple(str(batch[name]) for name in names) for batch in dump(path)][: len(wanted)]
    assert found == wanted


def test_dump_prints_keys_values_headers_and_control_markers(data: Path) -> None:
    things = dump("--data", segment(data, "flights-0"))
    records = [thing for thing in things if thing["kind"] == "record"]
    assert [record["offset"] for record in records] == list(range(154))
    assert (records[31]["key"], records[31]["value"]) == ("key", "gzip 1")
    assert records[31]["headers"] == [{"name": "codec", "value": "gzip"}]
    assert [record.get("control") for record in records[150:]] == [None, "commit", None, "abort"]
    assert (records[150]["key"], records[150]["value"]) == (None, {"base64": "/wA="})


def test_dump_decodes_internal_topics(data: Path) -> None:
    offsets = [
        thing for thing in dump("--data", segment(data, "__consumer_offsets-0")) if thing.get("type") == "OffsetCommit"
    ]
    assert [(each["key"]["group"], each["key"]["topic"], each["value"]["offset"]) for each in offsets] == [
        ("readers", "flights", 7)
    ]
    transactions = [thing for thing in dump("--data", segment(data, "__transaction_state-0")) if "key" in thing]
    assert {each["key"]["transactional_id"] for each in transactions} == {"mover"}
    metadata = dump("--data", segment(data, "__cluster_metadata-0"))
    made = [thing["fields"] for thing in metadata if thing.get("type") == "TopicRecord"]
    assert "flights" in [topic["name"] for topic in made]
    assert all(re.fullmatch(r"[\w-]{22}", topic["topic_id"]) for topic in made)
    for snapshot in (data / "__cluster_metadata-0").glob("*.checkpoint"):
        assert dump("--data", str(snapshot))[1]["control"] == "snapshot header"


@pytest.mark.java
def test_records_of_a_streams_group_are_dumped_as_kafka_decodes_them(data: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    path = segment(data, "__consumer_offsets-0")
    shown = tool("dump-log", "--offsets-decoder", "--files", path).stdout
    theirs = []
    for line in shown.splitlines():
        found = re.search(r"key: (\{.*\}) payload: (\{.*\})$", line)
        if found is not None:
            key, value = (json.loads(part)["data"] for part in found.groups())
            if key.get("groupId") == STREAMS_GROUP:
                theirs.append((key, value))
    ours = [
        (camel_case(each["key"]), without_defaults(camel_case(each["value"])))
        for each in dump("--data", path)
        if str(each.get("type", "")).startswith("StreamsGroup")
    ]
    assert len(ours) > 5
    assert ours == theirs


def without_defaults(value: dict[str, Any]) -> dict[str, Any]:
    """Kafka leaves out tagged fields that have their default, which is -1 in these records."""
    return {name: each for name, each in value.items() if each != -1}


def camel_case(value: Any) -> Any:
    """The names of fields as Kafka writes them."""
    if isinstance(value, dict):
        return {re.sub(r"_(\w)", lambda found: found[1].upper(), key): camel_case(each) for key, each in value.items()}
    return [camel_case(each) for each in value] if isinstance(value, list) else value


def test_dumped_indexes_point_at_batch_starts(data: Path) -> None:
    batches = {batch["last_offset"]: batch["position"] for batch in dump(segment(data, "flights-0"))}
    entries = dump(segment(data, "flights-0", "index"))
    assert len(entries) > 1
    assert all(batches[entry["offset"]] == entry["position"] for entry in entries)
    assert dump(segment(data, "flights-0", "timeindex"))
    [aborted] = dump(segment(data, "flights-0", "txnindex"))
    assert (aborted["first_offset"], aborted["last_offset"]) == (152, 153)


@pytest.mark.parametrize(("at", "what"), [(70, "CRC"), (20, "is_valid"), (16, "magic")])
def test_damage_is_reported_with_its_position_after_the_batches_before_it(
    data: Path, tmp_path: Path, at: int, what: str
) -> None:
    content = bytearray(Path(segment(data, "flights-0")).read_bytes())
    second = dump(segment(data, "flights-0"))[1]["position"]
    content[second + at] ^= 0xFF
    broken = tmp_path / "flights-0" / "00000000000000000000.log"
    broken.parent.mkdir()
    broken.write_bytes(content)
    command = [sys.executable, "-m", "kraft.cli.admin.app", "dump", str(broken)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 1
    assert done.stdout.startswith("batch position=0 base_offset=0")
    if what == "magic":
        assert f"damaged from byte {second} on: magic" in done.stderr
    else:
        assert f"batch position={second} " in done.stdout
        assert "is_valid=false" in done.stdout


def test_dump_refuses_a_file_that_is_no_log_file(data: Path) -> None:
    dump(str(data / "meta.properties"), code=1)
    dump(str(data / "nothing.log"), code=1)


def test_preallocated_space_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(bytes(100))
    assert dump(str(path), code=1) == []


def metadata(*arguments: str, code: int = 0) -> Any:
    command = [sys.executable, "-m", "kraft.cli.admin.app", "metadata", *arguments, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if not code else done.stderr


def test_the_metadata_of_a_node_are_printed_as_a_tree(data: Path) -> None:
    tree = metadata(str(data))
    assert set(tree["metadata"]["topics"]) == {
        "flights",
        "__consumer_offsets",
        "__transaction_state",
        "words-counts-changelog",
        "words-counts-repartition",
    }
    flights = metadata(str(data / "__cluster_metadata-0"), "topics/flights")["metadata"]
    assert flights["0"]["replicas"] == flights["0"]["isr"] == [1]
    assert metadata(str(data), "/topics/flights/0/leader/")["metadata"] == 1
    assert tree["metadata"]["configs"]["topics"]["flights"] == {"index.interval.bytes": "1"}
    assert tree["metadata"]["brokers"]["1"]["fenced"] is False
    assert "there are 0, id" in metadata(str(data), "topics/flights/7", code=3)


def test_the_metadata_are_printed_as_of_an_earlier_offset(data: Path) -> None:
    things = dump("--data", segment(data, "__cluster_metadata-0"))
    [made] = [
        each["offset"] for each in things if each.get("type") == "TopicRecord" and each["fields"]["name"] == "flights"
    ]
    assert "flights" not in metadata(str(data), "topics", "--until", str(made))["metadata"]
    assert "flights" in metadata(str(data), "topics", "--until", str(made + 10))["metadata"]


def test_a_directory_without_a_metadata_log_is_reported(tmp_path: Path) -> None:
    assert "holds no metadata" in metadata(str(tmp_path), code=1)
    assert "No such file" in metadata(str(tmp_path / "nothing"), code=1)
