"""One query that copies records with timestamps three days old, by a sink that writes exactly once, under many faults.
The driver is killed while tasks run, within the transaction, and before Spark records the batch. The target is
restarted. Spark runs tasks twice. Tasks of a killed driver continue after their successors are done."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.cimpl import NewTopic

from jepsen.spark.checks import Verdict
from jepsen.spark.once_job import LINGERING_BATCH, QUERY
from jepsen.spark.processes import SparkDriver, send
from jepsen.spark.spark_cluster import SparkCluster
from jepsen.three_nodes import until
from kraft.testing.foreign.librdkafka import AdminClient, Consumer, Producer
from kraft.testing.watermarks import watermarks

VARIANTS: dict[str, tuple[str, ...]] = {
    "options": (),
    "session": ("session",),
    "column": ("column",),
    "session-column": ("session", "column"),
    "foreach": ("session", "column", "foreach"),
}
"""How the query sets its checkpoint and its topic, and which of Spark's two ways of writing it uses."""
PARTITIONS = 4
BATCHES = 3
THREE_DAYS_MS = 3 * 86_400_000
WAIT_SECONDS_MAX = 180.0
READ_MAX = 10_000


class OnceRound:
    """The round of one variant of the query. `restart` stops the target in order and starts it again. Leaders then
    forget the producers of old records."""

    def __init__(
        self,
        bootstrap: str,
        restart: Callable[[], None],
        spark: SparkCluster,
        directory: Path,
        variant: str,
        rows: int,
        padding: int = 0,
        replicas: int = 1,
    ) -> None:
        self.bootstrap, self.restart, self.spark = bootstrap, restart, spark
        self.directory = directory / f"once-{variant}"
        self.variant, self.rows, self.padding, self.replicas = variant, rows, b"x" * padding, replicas
        self.source, self.target = f"source-{variant}", f"target-{variant}"
        spec = {"bootstrap": bootstrap, "source": self.source, "target": self.target, "ways": VARIANTS[variant]}
        spec |= {
            "tasks": PARTITIONS,
            "batch": rows // BATCHES,
            "master": spark.master,
            "arrow": rows // BATCHES // PARTITIONS // 2,
        }
        self.driver = SparkDriver(self.directory, spec, "once_job")
        self.checkpoint = self.directory / "checkpoints" / QUERY
        self.zombies: list[int] = []
        self.bites: list[str] = []

    def run(self) -> list[Verdict]:
        """Run and judge the round. Raises AssertionError or TimeoutError if the round proves nothing."""
        self.prepare()
        try:
            self.kill_while_tasks_run()
            self.restart()
            self.kill_within_the_transaction()
            self.restart()
            self.go_on_with_zombies()
            self.forget_newest_commit()
            self.restart()
            self.driver.start()
            self.until_ended()
        finally:
            self.wake()
            self.driver.close()
        assert self.attempts(f"{LINGERING_BATCH}-0-1-*.ended"), "Spark ran no second copy of a slow task"
        return [self.judge()]

    def prepare(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        wanted = [NewTopic(topic, PARTITIONS, self.replicas) for topic in (self.source, self.target)]
        for each in admin.create_topics(wanted).values():
            each.result(30)
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 50})
        stamp = int(time.time() * 1000) - THREE_DAYS_MS
        for number in range(self.rows):
            value = b"%d %b" % (number, self.padding)
            producer.produce(self.source, value, b"k%d" % number, number % PARTITIONS, timestamp=stamp)
            if number % 10_000 == 0:
                producer.flush(60)
        assert producer.flush(60) == 0, "the source was not written"

    # -- faults

    def kill_while_tasks_run(self) -> None:
        self.driver.start()
        self.until(lambda: self.attempts(f"{LINGERING_BATCH}-*.ended"), "the tasks of a batch do not end")
        self.zombies = self.spark.python_workers()
        for pid in self.zombies:
            send(pid, signal.SIGSTOP)
        self.driver.kill()
        self.bitten(f"killed the driver while tasks ran, {len(self.zombies)} Python processes stay behind")

    def kill_within_the_transaction(self) -> None:
        self.driver.start()
        clients = [
            Consumer({"bootstrap.servers": self.bootstrap, "group.id": "g", "isolation.level": level})
            for level in ("read_uncommitted", "read_committed")
        ]

        def is_open() -> bool:
            end, stable = (watermarks(each, self.target, 0, WAIT_SECONDS_MAX)[1] for each in clients)
            return bool(end > stable) and self.is_noted("0")

        self.until(is_open, "no transaction was seen open")
        self.driver.kill()
        assert not self.is_noted(LINGERING_BATCH), "the batch was over before its driver was killed"
        self.bitten("killed the driver within its transaction")

    def go_on_with_zombies(self) -> None:
        """Run the query to the end. Tasks of the first driver resume once their batch is committed."""
        self.driver.start()
        self.until(lambda: self.is_noted(LINGERING_BATCH), "the batch is not committed")
        self.wake()
        self.bitten("let the first driver's tasks go on")
        self.until_ended()

    def wake(self) -> None:
        for pid in self.zombies:
            send(pid, signal.SIGCONT)

    def forget_newest_commit(self) -> None:
        """Remove Spark's record of the newest batch, as if the driver was killed after the sink had committed the batch
        and before Spark recorded it."""
        commits = self.checkpoint / "commits"
        newest = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
        (commits / str(newest)).unlink()
        (commits / f".{newest}.crc").unlink(missing_ok=True)
        self.bitten(f"forgot that batch {newest} was committed")

    def bitten(self, what: str) -> None:
        self.bites.append(what)
        print(f"  {self.directory.name}: {what}", flush=True)

    def is_noted(self, batch: str) -> bool:
        return (self.checkpoint / "commits" / batch).exists()

    def attempts(self, pattern: str) -> Sequence[Path]:
        return list((self.directory / "attempts").glob(pattern))

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until `condition` is true. Raises AssertionError if the driver ends before."""

        def met() -> object:
            found = condition()
            assert found or self.driver.is_running(), f"the driver is gone:\n{self.driver.log_tail()}"
            return found

        until(met, what, WAIT_SECONDS_MAX)

    def until_ended(self) -> None:
        code = self.driver.wait()
        assert code == 0, f"the driver ended with {code}:\n{self.driver.log_tail()}"

    # -- judgement

    def judge(self) -> Verdict:
        verdict = Verdict("kraft")
        counts = committed(self.bootstrap, self.target)
        wanted = [b"%d" % number for number in range(self.rows)]
        verdict.checked = counts.total()
        verdict.lost = sum(number not in counts for number in wanted)
        verdict.duplicated = counts.total() - len(counts)
        if strange := len(counts) + verdict.lost - self.rows:
            verdict.violations.append(f"{strange} records were never sent")
        return verdict


def committed(bootstrap: str, topic: str) -> Counter[bytes]:
    """Return the numbers that a reader of committed records gets, with the count of each."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: Counter[bytes] = Counter()
    ended = 0
    while ended < PARTITIONS:
        messages = consumer.consume(READ_MAX, 30)
        assert messages, f"nothing more from {topic} after {found.total()} records"
        for each in messages:
            if each.error() is None:
                found[bytes(each.value() or b"").partition(b" ")[0]] += 1
            else:
                assert each.error().code() == KafkaError._PARTITION_EOF, each.error()
                ended += 1
    consumer.close()
    return found
