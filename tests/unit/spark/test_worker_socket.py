"""Spark's TCP socket to a Python worker: what waits for an acknowledgement gets it when a task arrives."""

from __future__ import annotations

import pickle
import socket
import sys

import pytest

from kraft.spark.client.worker_socket import ForWorkers, acknowledge_at_once
from kraft.spark.sink.writer import KafkaBatchWriter, KafkaStreamWriter
from kraft.spark.source.batch_reader import KafkaBatchReader, KafkaFilteringBatchReader
from kraft.spark.source.options import batch_options, stream_options
from kraft.spark.source.stream_reader import KafkaStreamReader

OPTIONS = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


def talked() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection that has seen questions and answers, so that acknowledgements are delayed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        asking = socket.create_connection(server.getsockname())
        answering, _ = server.accept()
    for _ in range(20):
        asking.sendall(b"?")
        answering.recv(1)
        answering.sendall(b"!")
        asking.recv(1)
    return asking, answering


@pytest.mark.skipif(sys.platform != "linux", reason="delayed acknowledgements can be turned off on Linux only")
@pytest.mark.parametrize("kind", [KafkaBatchReader, KafkaFilteringBatchReader, KafkaStreamReader])
def test_a_reader_created_in_a_worker_disables_the_socket_delay(kind: type[ForWorkers]) -> None:
    options = stream_options(OPTIONS) if kind is KafkaStreamReader else batch_options(OPTIONS)
    reader = kind(options)  # type: ignore[call-arg]
    asking, answering = talked()
    with asking, answering:
        assert answering.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 0
        arrived = pickle.loads(pickle.dumps(reader))
        assert answering.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
    assert arrived.options == options


def test_a_writer_created_in_a_worker_disables_the_socket_delay() -> None:
    assert issubclass(KafkaBatchWriter, ForWorkers)
    assert issubclass(KafkaStreamWriter, ForWorkers)


def test_sockets_of_other_kinds_are_not_changed() -> None:
    one, other = socket.socketpair()
    with one, other, socket.socket(socket.AF_INET, socket.SOCK_DGRAM):
        acknowledge_at_once()
        one.sendall(b"still open")
        assert other.recv(100) == b"still open"
