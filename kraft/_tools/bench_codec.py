"""Measure the codec's cost for the messages that dominate a broker's time.

    python -m kraft._tools.bench_codec [--rounds N]

Prints microseconds, the best of N rounds, so that other load of the machine counts least.
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable

from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kraft.protocol.schema import Message

RECORDS = bytes(1000)


def produce_request() -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=RECORDS)
    return ProduceRequest(
        acks=-1, timeout_ms=30000, topic_data=[TopicProduceData(name="orders", partition_data=[partition])]
    )


def produce_response() -> ProduceResponse:
    partition = PartitionProduceResponse(index=3, base_offset=123456789, log_start_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[partition])])


def fetch_request() -> FetchRequest:
    partition = FetchPartition(partition=3, current_leader_epoch=7, fetch_offset=123456789, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        session_id=77,
        session_epoch=3,
        topics=[FetchTopic(topic="orders", partitions=[partition])],
    )


def fetch_response() -> FetchResponse:
    partition = PartitionData(
        partition_index=3, high_watermark=123456789, last_stable_offset=123456789, log_start_offset=0, records=RECORDS
    )
    return FetchResponse(session_id=77, responses=[FetchableTopicResponse(topic="orders", partitions=[partition])])


def metadata_response(partitions: int) -> MetadataResponse:
    brokers = [
        MetadataResponseBroker(node_id=node, host=f"broker-{node}.example.org", port=9092) for node in range(1, 4)
    ]
    rows = [
        MetadataResponsePartition(
            partition_index=index, leader_id=index % 3 + 1, leader_epoch=7, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        for index in range(partitions)
    ]
    topic = MetadataResponseTopic(name="orders", partitions=rows)
    return MetadataResponse(brokers=brokers, cluster_id="MkU3OEVBNTcwNTJENDM2Qk", controller_id=1, topics=[topic])


def microseconds(action: Callable[[], object], rounds: int) -> float:
    """Return the best of `rounds`, each long enough for the clock's resolution."""
    action()
    timer = timeit.Timer(action)
    count, _ = timer.autorange()
    count = max(count // 20, 1)
    return min(timer.repeat(rounds, count)) / count * 1e6


def decoding(message: Message, version: int) -> Callable[[], object]:
    encoded = memoryview(message.encode(version))
    return lambda: message.decode(encoded, version)


def encoding(message: Message, version: int) -> Callable[[], object]:
    return lambda: message.encode(version)


CASES: tuple[tuple[str, Callable[[], object]], ...] = (
    ("Produce v9 request, one partition: decode", decoding(produce_request(), 9)),
    ("Produce v9 request, one partition: encode", encoding(produce_request(), 9)),
    ("Produce v9 response, one partition: encode", encoding(produce_response(), 9)),
    ("Produce v9 response, one partition: make and encode", lambda: produce_response().encode(9)),
    ("Fetch v12 request, one partition: decode", decoding(fetch_request(), 12)),
    ("Fetch v12 response, one partition: encode", encoding(fetch_response(), 12)),
    ("Fetch v12 response, one partition: decode", decoding(fetch_response(), 12)),
    ("Metadata v12 response, 600 partitions: encode", encoding(metadata_response(600), 12)),
    ("Metadata v12 response, 600 partitions: make and encode", lambda: metadata_response(600).encode(12)),
    ("Metadata v12 response, 600 partitions: decode", decoding(metadata_response(600), 12)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the codec.")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    for name, action in CASES:
        print(f"{microseconds(action, options.rounds):10.2f} us  {name}")


if __name__ == "__main__":
    main()
