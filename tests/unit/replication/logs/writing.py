"""A log writer whose thread a test holds."""

from __future__ import annotations

from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.record_batch import batches
from kraft.storage.unified_log import UnifiedLog
from tests.unit.server.brokers import batch


def values(log: UnifiedLog) -> list[bytes | None]:
    """Every record of the log, as its file has it: not a byte more may be there."""
    segment = log.active_segment
    file = segment.open_log().file
    assert file.size() == segment.size
    return [record.value for each in batches(file.pread(segment.size, 0)) for record in each.records()]


def produce(*values: tuple[str, bytes], acks: int = -1) -> ProduceRequest:
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch(value))])
        for name, value in values
    ]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)
