"""Values of librdkafka as JSON.

Numbers, strings, booleans, None, lists and maps with string keys are written as they are. Every other value is a list
whose first element is its tag. A plain list is tagged too, so that the two cannot be confused.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, Final

import confluent_kafka
import confluent_kafka.admin
from confluent_kafka import KafkaError, KafkaException, Message, Messages, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

PLAIN: Final = (str, int, float, bool, type(None))
CALLBACKS: Final = ("on_delivery", "on_assign", "on_revoke", "on_lost", "on_commit", "stats_cb", "error_cb")
"""Options that hold functions of the caller."""


class Received:
    """A message as the child received it, with the getters of `confluent_kafka.Message` that tests use."""

    def __init__(
        self,
        topic: str | None,
        partition: int | None,
        offset: int | None,
        key: bytes | None,
        value: bytes | None,
        leader_epoch: int | None,
        error: KafkaError | None,
        timestamp: tuple[int, int],
        headers: list[tuple[str, bytes | None]] | None,
        delivery_count: int | None = None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._leader_epoch = leader_epoch
        self._error = error
        self._timestamp = timestamp
        self._headers = headers
        self._delivery_count = delivery_count

    def topic(self) -> str | None:
        return self._topic

    def partition(self) -> int | None:
        return self._partition

    def offset(self) -> int | None:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def leader_epoch(self) -> int | None:
        return self._leader_epoch

    def error(self) -> KafkaError | None:
        return self._error

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self._headers

    def delivery_count(self) -> int | None:
        """How often a share group has delivered it; None outside of share groups."""
        return self._delivery_count


class Handle:
    """An object that exists only in the child, named by its number there."""

    def __init__(self, number: int) -> None:
        self.number = number


class Futures:
    """The answer of an admin client for several items: by item "ok" and the result, or "error" and the exception."""

    def __init__(self, results: dict[Any, Sequence[Any]]) -> None:
        self.results = results

    def done(self) -> dict[Any, Future[Any]]:
        """The results as futures that are done already."""
        made: dict[Any, Future[Any]] = {}
        for item, (outcome, value) in self.results.items():
            made[item] = Future()
            if outcome == "ok":
                made[item].set_result(value)
            else:
                made[item].set_exception(value)
        return made


def encode(value: Any) -> Any:
    """The JSON of a value. An object of an unknown type becomes its public attributes."""
    if isinstance(value, enum.Enum):
        return ["enum", type(value).__name__, value.name]
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, bytes):
        return ["bytes", value.decode("latin-1")]
    if isinstance(value, dict):
        return ["map", [[encode(_as_key(key)), encode(each)] for key, each in value.items()]]
    if isinstance(value, tuple):
        return ["tuple", [encode(each) for each in value]]
    if isinstance(value, list | set | frozenset | Messages):
        return ["list", [encode(each) for each in value]]
    return [type(value).__name__, *(encode(each) for each in _parts(value))]


def _as_key(value: Any) -> Any:
    """A key of a map: a partition without its error, which the other side could not hash."""
    return TopicPartition(value.topic, value.partition) if isinstance(value, TopicPartition) else value


def _parts(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Handle):
        return (value.number,)
    if isinstance(value, Futures):
        return (value.results,)
    if isinstance(value, TopicPartition):
        return (value.topic, value.partition, value.offset, value.metadata, value.leader_epoch, value.error)
    if isinstance(value, KafkaError):
        return (value.code(), value.str(), value.fatal(), value.retriable(), value.txn_requires_abort())
    if isinstance(value, KafkaException):
        return value.args[:1]
    if isinstance(value, Message):
        head = (value.topic(), value.partition(), value.offset(), value.key(), value.value())
        tail = (value.timestamp(), value.headers(), value.delivery_count())
        return (*head, value.leader_epoch(), value.error(), *tail)
    if isinstance(value, NewTopic):
        return (value.topic, value.num_partitions, value.replication_factor, value.replica_assignment, value.config)
    if isinstance(value, NewPartitions):
        return (value.topic, value.new_total_count)
    if isinstance(value, ConfigResource):
        return (value.restype.name, value.name, {each.name: each.value for each in value.incremental_configs or ()})
    if isinstance(value, Exception):
        return (str(value),)
    return ({name: each for name, each in vars(value).items() if not name.startswith("_")},)


def decode(value: Any) -> Any:
    """Return the value that `encode` has written. A value of an unknown type becomes a namespace of its attributes."""
    if not isinstance(value, list):
        return value
    tag, *parts = value
    if tag == "list":
        return [decode(each) for each in parts[0]]
    if tag == "tuple":
        return tuple(decode(each) for each in parts[0])
    if tag == "enum":
        kind, name = parts
        found = getattr(confluent_kafka, kind, None) or getattr(confluent_kafka.admin, kind, None)
        return name if found is None else found[name]
    if tag == "map":
        return {decode(key): decode(each) for key, each in parts[0]}
    if tag == "bytes":
        return parts[0].encode("latin-1")
    return _made(tag, [decode(each) for each in parts])


def _made(tag: str, parts: list[Any]) -> Any:
    if tag == "TopicPartition":
        topic, partition, offset, metadata, leader_epoch, error = parts
        options = {"metadata": metadata, "leader_epoch": leader_epoch}
        if error is None:
            given = {name: each for name, each in options.items() if each is not None}
            return TopicPartition(topic, partition, offset, **given)
        return SimpleNamespace(topic=topic, partition=partition, offset=offset, error=error, **options)
    if tag == "KafkaError":
        code, text, fatal, retriable, requires_abort = parts
        return KafkaError(code, text, fatal=fatal, retriable=retriable, txn_requires_abort=requires_abort)
    if tag == "NewTopic":
        topic, partitions, replicas, assignment, config = parts
        placed = {"replica_assignment": assignment} if assignment else {"replication_factor": replicas}
        return NewTopic(topic, partitions, config=config or {}, **placed)
    if tag == "ConfigResource":
        kind, name, values = parts
        entries = [ConfigEntry(key, each, incremental_operation=AlterConfigOpType.SET) for key, each in values.items()]
        return ConfigResource(ResourceType[kind], name, incremental_configs=entries)
    if tag == "Futures":
        return Futures(parts[0]).done()
    makers: dict[str, Any] = {
        "Handle": Handle,
        "KafkaException": KafkaException,
        "Message": Received,
        "NewPartitions": NewPartitions,
    }
    maker = makers.get(tag, getattr(builtins, tag, None))
    if maker is not None:
        return maker(*parts)
    return SimpleNamespace(kind=tag, **parts[0]) if isinstance(parts[0], dict) else RuntimeError(f"{tag}: {parts[0]}")
