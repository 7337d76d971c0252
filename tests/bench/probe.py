"""From a process that was just started to its first acknowledged record, with nothing of a client library between:
what is timed is the node."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.bench.systems import System, check_alive
from tests.vectors.plain import Batch
from tests.vectors.wire import Connection

PAUSE_S = 0.002
DONE_CODES = frozenset({0, 36})  # done, or the topic exists from a try whose answer was lost
# unknown topic, no leader, not leader, timed out, no network, loading, not available, too few brokers yet, not
# controller, unknown id: all pass.
RETRY_CODES = frozenset({3, 5, 6, 7, 13, 14, 15, 38, 41, 100})


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
                retry(
                    connection,
                    "CreateTopics",
                    7,
                    create_body(topic),
                    lambda answer: answer["topics"][0]["error_code"],
                    deadline,
                )
                create = False
            retry(
                connection,
                "Produce",
                9,
                produce_body(topic),
                lambda answer: answer["responses"][0]["partition_responses"][0]["error_code"],
                deadline,
            )
            return time.perf_counter()
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


def retry(
    connection: Connection,
    api: str,
    version: int,
    body: dict[str, Any],
    code_of: Callable[[dict[str, Any]], int],
    deadline: float,
) -> None:
    """Ask until it is done. Raises RuntimeError for a refusal that will not pass."""
    while time.monotonic() < deadline:
        code = code_of(ask(connection, api, version, body))
        if code in DONE_CODES:
            return
        if code not in RETRY_CODES:
            raise RuntimeError(f"{api} was refused with error {code}")
        time.sleep(PAUSE_S)
    raise TimeoutError(f"{api} was not answered well in time, last with error {code}")


def create_body(topic: str, replicas: int = 1) -> dict[str, Any]:
    return {"topics": [{"name": topic, "num_partitions": 1, "replication_factor": replicas}], "timeout_ms": 5000}


def produce_body(topic: str) -> dict[str, Any]:
    return {
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": Batch(b"first")}]}],
    }


def warm_up() -> None:
    """Compile the codecs that the probe needs before any clock starts."""
    from tests.vectors.plain import message_class, to_message

    for api, version, body in (("CreateTopics", 7, {"topics": []}), ("Produce", 9, produce_body("t"))):
        to_message(message_class(f"{api}Request"), body, version).encode(version)
        response = message_class(f"{api}Response")
        response.decode(response().encode(version), version)
