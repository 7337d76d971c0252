"""A foreign client in a process of its own: what it answers, and that no call of it can hang."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.cimpl import NewTopic

from kraft.testing.foreign.librdkafka import AdminClient, Consumer, Producer
from kraft.testing.foreign.process import PROCESSES, ClientDied, ForeignProcess, Hung
from kraft.testing.foreign.values import Futures, decode, encode

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


def test_values_are_returned_unchanged_from_the_client_process() -> None:
    error = KafkaError(KafkaError._TIMED_OUT, "late", retriable=True, txn_requires_abort=True)
    back: Any = decode(encode([b"\x00\xff", {"a": (1, None)}, TopicPartition("t", 1, 2), error, ["bytes", "a"]]))
    assert back[:2] == [b"\x00\xff", {"a": (1, None)}]
    assert back[4] == ["bytes", "a"]
    assert (back[2].topic, back[2].partition, back[2].offset) == ("t", 1, 2)
    told = back[3]
    assert (told.code(), told.str(), told.retriable(), told.txn_requires_abort()) == (error.code(), "late", True, True)
    topic = decode(encode(NewTopic("t", 3, 2, config={"a": "b"})))
    assert (topic.topic, topic.num_partitions, topic.replication_factor, topic.config) == ("t", 3, 2, {"a": "b"})


def test_a_message_is_returned_with_the_results_of_all_its_accessors() -> None:
    headers = [("a", b"1"), ("b", None)]
    told = {
        "topic": "t",
        "partition": 1,
        "offset": 2,
        "key": b"k",
        "value": b"v",
        "timestamp": (1, 5),
        "leader_epoch": 3,
    }
    back: Any = decode(encode(Message(**told, headers=headers)))
    assert {name: getattr(back, name)() for name in told} == told
    assert (back.headers(), back.error()) == (headers, None)


def test_enumerators_and_results_of_futures_are_returned_as_such() -> None:
    assert decode(encode(ConsumerGroupState.EMPTY)) is ConsumerGroupState.EMPTY
    made: Any = decode(encode(Futures({"a": ("ok", 1), "b": ("error", ValueError("no"))})))
    assert made["a"].result() == 1
    with pytest.raises(ValueError, match="no"):
        made["b"].result()


def test_an_object_of_an_unknown_type_is_returned_as_its_attributes() -> None:
    assert decode(encode(SimpleNamespace(id=3, _hidden=1))).id == 3


def test_callbacks_run_within_the_next_call() -> None:
    told: list[object] = []
    with Producer({**NOWHERE, "message.timeout.ms": 10}) as producer:
        producer.produce("t", b"value", on_delivery=lambda error, message: told.append((error.name(), message.value())))
        assert producer.flush(10) == 0
    assert told == [("_MSG_TIMED_OUT", b"value")]


def test_an_exception_of_the_client_is_raised_here() -> None:
    consumer = Consumer({**NOWHERE, "group.id": "g"})
    with pytest.raises(KafkaException) as raised:
        consumer.committed([TopicPartition("t", 0)], timeout=0.01)
    assert raised.value.args[0].name() in ("_TIMED_OUT", "_WAIT_COORD", "_TRANSPORT")
    admin = AdminClient(NOWHERE)
    assert admin.process is consumer.process, "clients of a thread share a process"
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic("t", 1, 1)], request_timeout=0.1)["t"].result()


def test_an_unreferenced_client_is_released() -> None:
    process = ForeignProcess()
    producer = Producer(NOWHERE, process=process)
    number = producer._number
    del producer
    with Producer(NOWHERE, process=process) as another:
        another.poll(0)
    for gone in (number, another._number):
        outcome, _ = process.ask(gone, "poll", (0,), {}, 10)
        assert isinstance(outcome, KeyError)
    process.close()


def test_a_thread_gets_a_new_process_after_the_old_one_ended() -> None:
    first = PROCESSES.of_thread()
    assert PROCESSES.of_thread() is first
    first.close()
    assert PROCESSES.of_thread() is not first


def test_an_unanswered_call_ends_the_process_and_keeps_its_stacks() -> None:
    asked = ForeignProcess("tests.unit.testing.deaf_program")
    with pytest.raises(Hung, match="position was not answered within 1 s") as raised:
        asked.ask(1, "position", (), {}, 1.0)
    assert PROCESSES.take_hangs() == [str(raised.value)]
    assert PROCESSES.take_hangs() == []
    stacks = Path(str(raised.value).rpartition(" ")[2])
    assert "deaf_program.py" in stacks.read_text()
    stacks.unlink()
    with pytest.raises(ClientDied, match="its process has ended"):
        asked.ask(1, "position", (), {}, 1.0)


def test_the_end_of_a_client_process_is_reported() -> None:
    producer = Producer(NOWHERE)
    os.kill(producer.process._process.pid, signal.SIGSEGV)
    with pytest.raises(ClientDied, match="ended in poll with -11"):
        producer.poll(0)
