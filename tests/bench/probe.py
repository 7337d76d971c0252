"""From a process that was just started to its first acknowledged record, with nothing of a client library between: what is timed is the node."""

from __future__ import annotations

import time
from typing import Any

from tests.bench.systems import System, check_alive
from tests.vectors.plain import Batch
from tests.vectors.wire import Connection

PAUSE_S = 0.002
RETRY_CODES = frozenset(
    {3, 5, 6, 7, 13, 14, 15, 41, 100}
)  # unknown topic, no leader, not leader, timed out, ..., not controller, unknown id: true for a moment


def until_serving(system: System, timeout_s: float = 60) -> None:
    """Wait until the client port accepts and answers, without leaving anything behind on the node."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        check_alive(system)
        try:
            connection = Connection(("127.0.0.1", system.port))
        except OSError:
            time.sleep(PAUSE_S)
            continue
        try:
            if ask(connection, "Metadata", 12, {"topics": []})["brokers"]:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(PAUSE_S)
    raise TimeoutError(f"{system.name} does not answer after {timeout_s} s")


def until_acknowledged(system: System, topic: str, *, create: bool, timeout_s: float = 60) -> float:
    """Wait until one record is acknowledged by all; the answer is `time.perf_counter()` then."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        check_alive(system)
        try:
            connection = Connection(("127.0.0.1", system.port))
        except OSError:
            time.sleep(PAUSE_S)
            continue
        try:
            if create:
                ask(connection, "CreateTopics", 7, {"topics": [{"name": topic, "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 5000})
            while time.monotonic() < deadline:
                answer = ask(connection, "Produce", 9, produce_body(topic))
                code = answer["responses"][0]["partition_responses"][0]["error_code"]
                if code == 0:
                    return time.perf_counter()
                if code not in RETRY_CODES:
                    raise RuntimeError(f"{system.name}: the record was refused with error {code}")
                time.sleep(PAUSE_S)
        except OSError:
            time.sleep(PAUSE_S)
        finally:
            connection.close()
    raise TimeoutError(f"{system.name} acknowledged nothing in {timeout_s} s")


def ask(connection: Connection, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    connection.send(api, version, body)
    answer = connection.receive(api, version)
    if isinstance(answer, str):
        raise ConnectionResetError(answer)
    return answer


def produce_body(topic: str) -> dict[str, Any]:
    return {"acks": -1, "timeout_ms": 5000, "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": Batch(b"first")}]}]}


def warm_up() -> None:
    """Compile the codecs that the probe needs before any clock starts."""
    from tests.vectors.plain import message_class, to_message

    for api, version, body in (("CreateTopics", 7, {"topics": []}), ("Produce", 9, produce_body("t"))):
        to_message(message_class(f"{api}Request"), body, version).encode(version)
        response = message_class(f"{api}Response")
        response.decode(response().encode(version), version)
