"""Batches that a topic has decoded: validated in a thread, within bounds that show early."""

from __future__ import annotations

import tracemalloc

import pytest

from kraft.metadata.records.config_record import ConfigRecord
from kraft.network.reply import Staged
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, DecompressedTooLarge, compress, decompress
from kraft.protocol.records.record import Record
from kraft.storage.log_validator import INLINE_BYTES_MAX, RECODED_INLINE_BYTES_MAX
from kraft.storage.record_validator import DECODED_FREELY_BYTES_MAX
from kraft.world.simulated import Universe
from tests.unit.server.brokers import Broker, broker, decoded, simulate

NOW_MS = 1_700_000_000_000
IN_THE_FUTURE_MS = 4_000_000_000_000
VERSION = 12
DECODING = {
    "compacted": {"cleanup_policy": "compact"},
    "recompressed": {"compression_type": "uncompressed"},
    "from the future": {},
}


def sent(size: int, codec: int, timestamp_ms: int = NOW_MS, count: int = 1) -> bytes:
    records = [Record(index, timestamp_ms, b"k", bytes(size), ()) for index in range(count)]
    return build_batch(records, codec=codec)


def configured(topic: str, name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=topic, name=name, value=value)


async def produce(made: Broker, batch: bytes) -> tuple[int, bool]:
    """The error code, and whether the request had a stage of its own, off the loop."""
    data = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    outcome = made.dispatch(request, VERSION)
    reply = await outcome if isinstance(outcome, Staged) else outcome
    answer = decoded(ProduceRequest.API_KEY, VERSION, reply)  # type: ignore[arg-type]  # Acks of one replica wait for nothing.
    return answer.responses[0].partition_responses[0].error_code, isinstance(outcome, Staged)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("case", DECODING)
def test_a_batch_with_an_excessive_compression_ratio_is_refused_in_a_worker(codec: int, case: str) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", **DECODING[case])  # type: ignore[arg-type]  # Configurations are words.
            timestamp_ms = NOW_MS if DECODING[case] else IN_THE_FUTURE_MS
            made.server.replicas.writer.large_bytes_min = 1 << 30
            size = 2 * DECODED_FREELY_BYTES_MAX if codec != ZSTD else 200 << 20
            batch = sent(size, codec, timestamp_ms)
            code, staged = await produce(made, batch)
            assert code == ErrorCode.MESSAGE_TOO_LARGE
            inline_max = RECODED_INLINE_BYTES_MAX if case == "recompressed" else INLINE_BYTES_MAX[codec]
            assert staged == (len(batch) > inline_max)
            assert made.partition("t").log.log_end_offset == 0

    simulate(play)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("case", ["compacted", "recompressed"])
def test_a_valid_decompressed_batch_is_appended(codec: int, case: str) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", **DECODING[case])  # type: ignore[arg-type]  # Likewise.
            code, staged = await produce(made, sent(10, codec, count=2000))
            assert (code, staged) == (ErrorCode.NONE, True)
            assert made.partition("t").log.log_end_offset == 2000
            code, staged = await produce(made, sent(10, codec, count=3))
            assert (code, staged) == (ErrorCode.NONE, False), "a small one is not worth a thread"

    simulate(play)


def test_a_batch_validated_under_a_changed_configuration_is_validated_again() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t", cleanup_policy="compact")
            data = PartitionProduceData(index=0, records=sent(10, GZIP, count=2000))
            request = ProduceRequest(
                acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
            )
            outcome = made.dispatch(request, VERSION)
            assert isinstance(outcome, Staged)
            made.publish(configured("t", "max.message.bytes", "100"))
            answer = decoded(ProduceRequest.API_KEY, VERSION, await outcome)
            code = answer.responses[0].partition_responses[0].error_code
            assert (code, topic) == (ErrorCode.MESSAGE_TOO_LARGE, topic)

    simulate(play)


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_decompression_stops_at_its_limit_before_more_memory_is_used(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, bomb, 8 << 20)
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()
