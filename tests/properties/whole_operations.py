"""Wherever a coordinator's log ends, each operation is read back whole or not at all.

Operations of any size are written one by one and together, also larger than max.message.bytes. Then the coordinator
dies between any two of its appends, and another one loads what is in the log.

`python -m tests.properties.whole_operations --these SEED...` runs seeds, and says in a line of JSON what came of each.
"""

from __future__ import annotations

import argparse
import json
import sys
from random import Random

import trio
import trio.testing

from jepsen.simulate import check_trees
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
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
                offsets = successor.coordinator.committed_offsets().get("g", {})
            topics = [place.topic for place in offsets]
            for topic in set(topics):
                assert topic == f"of-{topics.count(topic)}-t", f"{topics.count(topic)} offsets of {topic} are there"

    run(scenario)


def main() -> int:
    parser = argparse.ArgumentParser(prog="whole_operations", description=__doc__)
    parser.add_argument("--these", type=int, nargs="+", required=True, help="seeds")
    parser.add_argument("--stop", action="store_true", help="the first violation is the last seed")
    arguments = parser.parse_args()
    check_trees()
    for seed in arguments.these:
        violations = []
        try:
            live(seed)
        except AssertionError as violation:
            violations.append(f"whole operations: {violation}")
        print(
            json.dumps({"seed": seed, "verdict": "violation" if violations else "ok", "violations": violations}),
            flush=True,
        )
        if violations and arguments.stop:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
