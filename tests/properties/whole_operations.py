"""Wherever a coordinator's log ends, each operation is read back whole or not at all.

Operations of any size are written one by one and together, also larger than max.message.bytes. Then the coordinator
dies between any two of its appends, and another one loads what is in the log.

`python -m tests.properties.whole_operations --these SEED...` runs seeds, and says in a line of JSON what came of each.
"""

from __future__ import annotations

import sys
from random import Random

import trio
import trio.testing

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from tests.properties.seeds import run_seeds
from tests.unit.coordinator.fakes import MemoryLog
from tests.unit.coordinator.service import Service, run, serving, write_offsets

ROUNDS = 4
METADATA_BYTES = 4096
OFFSETS_MAX = 700


async def write_behind_a_gate(service: Service, partition: TopicPartition, sizes: list[int]) -> dict[int, str | int]:
    """Write operations of so many offsets together: behind the first, whose append waits. What became of each: its
    answer, or the code of its refusal. The topics of an operation say how many offsets it has."""
    outcomes: dict[int, str | int] = {}

    async def write(size: int) -> None:
        operation = write_offsets(size, "m" * METADATA_BYTES, f"of-{size}-")
        try:
            outcomes[size] = await service.coordinator.runtime.write(partition.partition, operation)
        except ApiError as refused:
            outcomes[size] = refused.code

    async with trio.open_nursery() as nursery:
        service.log.gate = trio.Event()
        for size in sizes:
            nursery.start_soon(write, size)
            await trio.testing.wait_all_tasks_blocked()
        service.log.gate.set()
        service.log.gate = None
    return outcomes


def live(seed: int) -> None:
    """Raises AssertionError where a part of an operation is read back."""

    async def scenario() -> None:
        draw = Random(seed)
        async with serving() as service:
            partition = service.partition("g")
            for _ in range(ROUNDS):
                await write_behind_a_gate(service, partition, draw.sample(range(1, OFFSETS_MAX), draw.randrange(1, 4)))
        batches = service.log.batches[partition]
        for end in range(len(batches) + 1):
            left = MemoryLog()
            left.batches = {partition: batches[:end]}
            left.replicate(partition)
            async with serving(left) as successor:
                offsets = (await successor.coordinator.committed_offsets()).get("g", {})
            topics = [place.topic for place in offsets]
            for topic in set(topics):
                assert topic == f"of-{topics.count(topic)}-t", f"{topics.count(topic)} offsets of {topic} are there"

    run(scenario)


def violation_of(seed: int) -> str:
    """Empty where the law holds."""
    try:
        live(seed)
    except AssertionError as violation:
        return f"whole operations: {violation}"
    return ""


if __name__ == "__main__":
    sys.exit(run_seeds("whole_operations", __doc__, violation_of))
