"""The measurements of three nodes. Each appends to `Figures`, as those of one node do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jepsen.three_nodes import until
from kraft.testing.steady_writer import SteadyWriter
from tests.bench import transactors
from tests.bench.cluster.trios import NODES, Trio
from tests.bench.measure import Figures, load
from tests.bench.probe import DONE_CODES, PAUSE_S, ask, create_body, produce_body, warm_up
from tests.bench.process_usage import rss_mb
from tests.bench.systems import recycle_pages
from tests.vectors.wire import Connection

RECORD = 1024
AROUND = 500
"""Records acknowledged before and after each fail-over that is timed."""
SETTLED_SECONDS = 3.0
MANY = 9000


@dataclass(frozen=True)
class Plan:
    """How much is measured. Sizes are in bytes."""

    rounds: int = 3
    bytes_a_round: int = 128 << 20
    latency_records: int = 2000
    transaction_seconds: float = 8.0
    starts: int = 3
    failovers: int = 5
    many_partitions: int = MANY


def in_turn(trios: list[Trio], rounds: int, measure: Callable[[Trio, int], None]) -> None:
    for number in range(rounds):
        for cluster in trios if number % 2 == 0 else reversed(trios):
            measure(cluster, number)


def until_in_sync(cluster: Trio, topic: str) -> None:
    def in_sync() -> bool:
        found = cluster.partitions(topic)
        return bool(found) and all(len(partition.isrs) == len(NODES) for partition in found.values())

    until(in_sync, f"{topic} of {cluster.name} is not in sync", 120)


def until_led(cluster: Trio, topic: str, partitions: int, without: int = -1) -> None:
    """Every partition has a leader, and it is not `without`."""

    def led() -> bool:
        found = cluster.partitions(topic)
        return len(found) == partitions and all(partition.leader not in (-1, without) for partition in found.values())

    until(led, f"{topic} of {cluster.name} is not led", 300)


def first_acknowledged(cluster: Trio, topic: str, timeout_s: float = 120) -> float:
    """Create `topic` and write one record to three replicas, without a client library between; `time.perf_counter()`
    when it is acknowledged."""
    deadline, created = time.monotonic() + timeout_s, False
    while time.monotonic() < deadline:
        for member in cluster.members.values():
            try:
                connection = Connection(("127.0.0.1", member.port))
            except OSError:
                continue
            try:
                if not created:
                    code = ask(connection, "CreateTopics", 7, create_body(topic, replicas=3))["topics"][0]["error_code"]
                    created = code in DONE_CODES
                if (
                    created
                    and not ask(connection, "Produce", 9, produce_body(topic))["responses"][0]["partition_responses"][
                        0
                    ]["error_code"]
                ):
                    return time.perf_counter()
            except OSError:
                continue
            finally:
                connection.close()
        time.sleep(PAUSE_S)
    raise TimeoutError(f"{cluster.name} acknowledged nothing in {timeout_s} s")


def starts(make: Callable[[str, str], Trio], names: list[str], plan: Plan, figures: Figures) -> None:
    """Three processes started at once on formatted directories, until the first record is acknowledged by all
    replicas."""
    warm_up()
    for number in range(plan.starts):
        for name in names if number % 2 == 0 else list(reversed(names)):
            cluster = make(name, f"start-{number}")
            cluster.prepare()
            begun = time.perf_counter()
            cluster.launch()
            try:
                figures.add("start_to_first_ack_s", cluster, first_acknowledged(cluster, "first") - begun)
            finally:
                cluster.kill()


def throughput(trios: list[Trio], plan: Plan, figures: Figures, place: Path) -> None:
    """1 KB records to one partition, and to six, acknowledged by all in-sync replicas. The first round only warms.

    `place` is a directory on the disk that the systems write to.
    """
    count = plan.bytes_a_round // RECORD

    def one(cluster: Trio, number: int) -> None:
        for partitions in (1, 6):
            topic = f"t{partitions}-{number}"
            cluster.create(topic, partitions)
            until_in_sync(cluster, topic)
            recycle_pages(place, plan.bytes_a_round * len(NODES) * 5 // 4)
            before = cluster.cpu_seconds()
            seconds = load("produce", cluster.bootstrap, topic, count, RECORD, 0, partitions)["seconds"]
            if number > 0:
                figures.add(f"produce_{partitions}p_mb_s", cluster, count * RECORD / seconds / 1e6)
                figures.add(
                    f"produce_{partitions}p_cpu_s_per_gb",
                    cluster,
                    (cluster.cpu_seconds() - before) / (count * RECORD / 1e9),
                )
        figures.add("after_run_rss_mb", cluster, cluster.rss_mb())

    in_turn(trios, plan.rounds + 1, one)


def latency(trios: list[Trio], plan: Plan, figures: Figures) -> None:
    """One record of 1 KB at a time, after the throughput rounds."""
    for cluster in trios:
        cluster.create("latency")
        load("latency", cluster.bootstrap, "latency", plan.latency_records // 4, RECORD)

    def one(cluster: Trio, number: int) -> None:
        times = load("latency", cluster.bootstrap, "latency", plan.latency_records, RECORD)
        figures.add("one_at_a_time_p50_ms", cluster, times["p50"])
        figures.add("one_at_a_time_p99_ms", cluster, times["p99"])

    in_turn(trios, plan.rounds, one)


def transactions(trios: list[Trio], plan: Plan, figures: Figures) -> None:
    """Transactions of one producer, and of several, whose records, state and markers have three replicas. The first
    round only warms."""

    def one(cluster: Trio, number: int) -> None:
        for count in transactors.COUNTS:
            topic = f"transactions-{count}"
            if number == 0:
                cluster.create(topic, transactors.PARTITIONS)
                until_in_sync(cluster, topic)
            found = transactors.measured(cluster.bootstrap, topic, count, plan.transaction_seconds, cluster.cpu_seconds)
            if number > 0:
                for name, value in found.items():
                    figures.add(name, cluster, value)

    in_turn(trios, plan.rounds + 1, one)


def failovers(trios: list[Trio], plan: Plan, figures: Figures) -> None:
    """Longest time without an acknowledged write around the end of a partition's leader: killed, killed while active
    controller too, and asked to stop."""

    def one(cluster: Trio, number: int) -> None:
        controller = cluster.active_controller()
        others = [node for node in NODES if node != controller]
        figures.add("gap_leader_killed_s", cluster, gap(cluster, f"gap-{number}", others[number % 2], Trio.kill))
        figures.add(
            "gap_leader_and_controller_killed_s",
            cluster,
            gap(cluster, f"gap-both-{number}", cluster.active_controller(), Trio.kill),
        )
        controller = cluster.active_controller()
        leader = next(node for node in NODES if node != controller)
        figures.add("gap_leader_stopped_s", cluster, gap(cluster, f"gap-stop-{number}", leader, stop))

    in_turn(trios, plan.failovers, one)


def stop(cluster: Trio, nodes: list[int]) -> None:
    for node in nodes:
        cluster.members[node].stop()


def gap(cluster: Trio, topic: str, leader: int, end: Callable[[Trio, list[int]], None]) -> float:
    """Seconds. The cluster is whole again on return."""
    cluster.create(topic, leader=leader)
    until_in_sync(cluster, topic)
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(AROUND)
        end(cluster, [leader])
        writer.more(AROUND)
    if writer.failed:
        raise RuntimeError(
            f"{cluster.name}: {len(writer.failed)} records were refused while {leader} failed over: {writer.failed[0]}"
        )
    cluster.launch([leader])
    until_in_sync(cluster, topic)
    time.sleep(SETTLED_SECONDS)
    return writer.longest_gap()


def many_partitions(make: Callable[[str, str], Trio], names: list[str], plan: Plan, figures: Figures) -> None:
    """A topic of 9,000 partitions with three replicas: until all are led, and until those of a killed node are led
    by others. One system at a time."""
    for name in names:
        cluster = make(name, "many")
        cluster.prepare()
        cluster.launch()
        try:
            first_acknowledged(cluster, "first")
            begun = time.perf_counter()
            cluster.create("many", plan.many_partitions)
            until_led(cluster, "many", plan.many_partitions)
            figures.add("many_created_and_led_s", cluster, time.perf_counter() - begun)
            until_in_sync(cluster, "many")
            gone = next(node for node in NODES if node != cluster.active_controller())
            begun = time.perf_counter()
            cluster.kill([gone])
            until_led(cluster, "many", plan.many_partitions, without=gone)
            figures.add("many_failed_over_s", cluster, time.perf_counter() - begun)
            figures.add(
                "many_rss_mb",
                cluster,
                sum(rss_mb(member.pid) for node, member in cluster.members.items() if node != gone),
            )
        finally:
            cluster.kill()


def place_of(directory: str) -> Callable[[str, str], Trio]:
    return lambda name, label: Trio(name, Path(directory) / f"{name}-{label}")
