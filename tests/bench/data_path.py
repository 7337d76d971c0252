"""Processor time of single small requests in one process: no network, simulated files, no other replica.

`python -m tests.bench.data_path --count N` prints microseconds for each request, the best of many short runs. Run the
file itself with PYTHONPATH set to another tree to measure that tree. Under `valgrind --tool=callgrind`, with one
`--only` and two values of `--count`, the difference is the cost of a request in instructions.
"""

from __future__ import annotations

import argparse
import gc
import time
from typing import Any

from kraft.network.reply import Reply
from kraft.protocol.framing import SIZE_BYTES, encode_request
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, batch, broker, decoded, simulate

PRODUCE, FETCH = 12, 17
BLOCK = 50
"""Requests in one run."""


def produce(records: int, size: int, acks: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(*[bytes(size)] * records))
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def fetch(topic_id: bytes, offset: int, replica: int = -1, session: int = 0, epoch: int = -1) -> FetchRequest:
    """A Fetch of one partition; of none where `epoch` continues a session."""
    partition = FetchPartition(partition=0, fetch_offset=offset, current_leader_epoch=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=10 << 20,
        session_id=session,
        session_epoch=epoch,
        replica_state=ReplicaState(replica_id=replica, replica_epoch=1 if replica >= 0 else -1),
        topics=[] if epoch > 0 and offset < 0 else [FetchTopic(topic_id=topic_id, partitions=[partition])],
    )


def frame_of(request: Any, version: int) -> memoryview:
    return memoryview(bytearray(encode_request(request.API_KEY, version, 7, "client", request)[SIZE_BYTES:]))


def ask(made: Broker, frame: memoryview) -> Reply:
    reply = made.server.dispatcher.dispatch(made.peer, frame)
    assert isinstance(reply, Reply)
    return reply


def measure(name: str, made: Broker, frames: list[memoryview]) -> None:
    """Each frame is sent once."""
    best = float("inf")
    for start in range(0, len(frames), BLOCK):
        block = frames[start : start + BLOCK]
        began = time.thread_time()
        for frame in block:
            ask(made, frame)
        best = min(best, (time.thread_time() - began) / len(block))
    print(f"{name:32} {best * 1e6:7.2f} us")


def follower_frames(made: Broker, topic_id: bytes, count: int, *, has_news: bool) -> list[memoryview]:
    """Frames that continue a new session of a follower."""
    answer = decoded(1, FETCH, ask(made, frame_of(fetch(topic_id, 0 if has_news else 1, 2, epoch=0), FETCH)))
    offset = 0 if has_news else -1
    return [frame_of(fetch(topic_id, offset, 2, answer.session_id, epoch), FETCH) for epoch in range(1, count + 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="requests of each kind")
    parser.add_argument("--only", default="", help="only kinds whose name begins so")
    options = parser.parse_args()

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.publish(made.register(2))
            made.topic("t")
            served = made.topic("f")
            replicated = made.topic("r", replicas=(NODE, 2))
            for name in ("f", "r"):
                made.partition(name).append(memoryview(batch(bytes(100))), 1, made.world.clock.wall_ms(), 0)
            ask(made, frame_of(produce(1, 100, 1), PRODUCE))
            gc.disable()
            for records, size, acks in ((1, 100, 1), (1, 100, -1), (1, 1000, 1), (1, 1000, -1), (16, 100, 1)):
                name = f"produce {records} x {size} B acks={acks}"
                if name.startswith(options.only):
                    measure(name, made, [frame_of(produce(records, size, acks), PRODUCE)] * options.count)
            if "consumer's fetch".startswith(options.only):
                measure("consumer's fetch", made, [frame_of(fetch(served, 0), FETCH)] * options.count)
            for name, has_news in (("follower's fetch, a batch", True), ("follower's fetch, nothing", False)):
                if name.startswith(options.only):
                    measure(name, made, follower_frames(made, replicated, options.count, has_news=has_news))

    simulate(play)


if __name__ == "__main__":
    main()
