"""The load generator: a process of its own, told what to do by arguments, answering with one line of JSON.

python -m tests.bench.load produce BOOTSTRAP TOPIC COUNT SIZE [BYTES_PER_SECOND [PARTITIONS [CODEC KEYS]]]
python -m tests.bench.load consume BOOTSTRAP TOPIC COUNT
python -m tests.bench.load latency BOOTSTRAP TOPIC COUNT SIZE
python -m tests.bench.load beside BOOTSTRAP TOPIC    (until standard input ends)
"""

from __future__ import annotations

import json
import select
import sys
import time
from itertools import count

PAUSE_S = 0.003
WARM_RECORDS = 20


def latency(bootstrap: str, topic: str, records: int, size: int) -> list[float]:
    """Milliseconds from produce to acknowledgement, one record at a time."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "socket.nagle.disable": True})
    payload, times, failed = bytes(size), [], []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failed.append(str(error))

    for index in range(records + records // 10):
        started = time.perf_counter()
        producer.produce(topic, payload, partition=0, on_delivery=delivered)
        while len(producer):
            producer.poll(1)
        if index >= records // 10:  # The first ones warm the connection.
            times.append((time.perf_counter() - started) * 1000)
    if failed:
        raise RuntimeError(failed[0])
    return sorted(times)


def beside(bootstrap: str, topic: str) -> list[float]:
    """Milliseconds of single records of 100 bytes, one at a time with a pause between, until standard input ends."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "socket.nagle.disable": True})
    times: list[float] = []
    for index in count():
        started = time.perf_counter()
        producer.produce(topic, bytes(100), partition=0)
        while len(producer):
            producer.poll(1)
        if index == WARM_RECORDS:
            print("warm", flush=True)
        elif index > WARM_RECORDS:
            times.append((time.perf_counter() - started) * 1000)
        if select.select([sys.stdin], [], [], PAUSE_S)[0]:
            return sorted(times)
    raise AssertionError


def main(arguments: list[str]) -> None:
    kind, bootstrap, topic, *numbers = arguments
    if kind == "latency":
        times = latency(bootstrap, topic, int(numbers[0]), int(numbers[1]))
        print(json.dumps({"p50": times[len(times) // 2], "p99": times[int(len(times) * 0.99)], "max": times[-1]}))
        return
    if kind == "beside":
        times = beside(bootstrap, topic)
        print(json.dumps({"p99": times[int(len(times) * 0.99)], "max": times[-1]}))
        return
    from tests.bench import librdkafka

    if kind == "produce":
        codec, keys = numbers[4:] or ("none", "0")
        seconds = librdkafka.produce(bootstrap, topic, *map(int, numbers[:4]), codec=codec, keys=int(keys))
    else:
        seconds = librdkafka.consume(bootstrap, topic, int(numbers[0]))
    print(json.dumps({"seconds": seconds, "ended": time.perf_counter()}))  # A clock that all processes share.


if __name__ == "__main__":
    main(sys.argv[1:])
