"""A producer that is refused for good: another takes its place where records may be gone, and it is a finding
everywhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from jepsen.checker.operations import Unexpected
from jepsen.history import Recorder, RunFacts, load
from jepsen.servers import open_servers
from jepsen.workloads.rdkafka import RdProducer

DESYNCHRONIZED = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "sequence desynchronization", True)


class Refused:
    """A librdkafka producer whose next poll tells what cannot be mended; the one after it ends the client."""

    made = 0

    def __init__(self, client: RdProducer) -> None:
        self.client = client
        self.number = Refused.made = Refused.made + 1

    def __len__(self) -> int:
        return 0

    def produce(self, *_: Any, **__: Any) -> None:
        pass

    def purge(self) -> None:
        pass

    def poll(self, seconds: float) -> None:
        if self.number == 1:
            raise KafkaException(DESYNCHRONIZED)
        self.client.stop()

    def flush(self, seconds: float) -> None:
        pass


@pytest.mark.parametrize(
    ("flush", "unclean", "power_failed", "is_finding"),
    [(False, False, True, False), (True, True, False, False), (True, False, True, True), (False, False, False, True)],
)
def test_a_producer_is_recreated_after_an_error_only_where_records_may_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: bool, unclean: bool, power_failed: bool, is_finding: bool
) -> None:
    facts = RunFacts(
        target="kraft", workload="queue", plan="power-all", seed=1, seconds=1, flush=flush, unclean=unclean
    )
    recorder = Recorder(tmp_path / "history", facts)
    if power_failed:
        recorder.power_loss([1, 2, 3])
    producer = RdProducer("rd", recorder, open_servers("nowhere:1"), 1, [("events", 0)], 1000.0)
    monkeypatch.setattr(Refused, "made", 0)
    monkeypatch.setattr("jepsen.workloads.rdkafka.Producer", lambda *_, **__: Refused(producer))
    producer.start()
    producer.join(10.0)
    recorder.close()
    found = load(tmp_path / "history").operations.of(Unexpected)
    assert ["OUT_OF_ORDER_SEQUENCE_NUMBER" in each.what for each in found] == [True] * is_finding
    assert producer.life == (not is_finding)
