"""Which second copies of records are those of Apache Kafka's leaders."""

from __future__ import annotations

import pytest

from tests.integration.kafka_refusals import Copy, Refusal, is_kafkas, refusals

LOG = (
    "14:59:42.835 ERROR ReplicaManager [ReplicaManager broker=3] Error processing append operation\n"
    "org.apache.kafka.common.errors.OutOfOrderSequenceException: Out of order sequence number for producer 7 at offset "
    "2195 in partition queue-2: 2196 (incoming seq. number), 2194 (current end sequence number)\n"
)
REFUSED = {Refusal(7, "queue-2", 2194)}
FIRST, SECOND = Copy(7, 0, 2194), Copy(7, 1, 0)


def test_refusals_are_read_from_kafkas_log() -> None:
    assert refusals([LOG, "nothing\n"]) == REFUSED


def test_a_copy_in_the_next_epoch_after_a_refusal_that_follows_the_first_is_kafkas() -> None:
    assert is_kafkas([FIRST, SECOND], "queue-2", REFUSED)


@pytest.mark.parametrize(
    ("copies", "partition", "refused"),
    [
        pytest.param([FIRST, SECOND], "queue-2", set(), id="refused by a node of ours, or by nobody"),
        pytest.param([FIRST, Copy(7, 0, 2195)], "queue-2", REFUSED, id="stored twice in one epoch"),
        pytest.param([FIRST, Copy(8, 1, 0)], "queue-2", REFUSED, id="by another producer"),
        pytest.param([FIRST, SECOND], "queue-1", REFUSED, id="in another partition"),
        pytest.param([Copy(7, 0, 2195), SECOND], "queue-2", REFUSED, id="the first is beyond Kafka's end"),
        pytest.param([FIRST, SECOND, Copy(7, 2, 0)], "queue-2", REFUSED, id="three times"),
    ],
)
def test_other_copies_are_findings(copies: list[Copy], partition: str, refused: set[Refusal]) -> None:
    assert not is_kafkas(copies, partition, refused)
