"""Producers that commit transactions one after the other, each a thread with a librdkafka of its own, in a process of
their own: python -m tests.bench.transactors BOOTSTRAP TOPIC PRODUCERS SECONDS"""

from __future__ import annotations

import json
import sys
import threading
import time

from confluent_kafka import Producer

RECORDS, PARTITIONS = 100, 4
WARM = 3
TIMEOUT_S = 60.0


def commit(bootstrap: str, topic: str, number: int, seconds: float, times: list[float]) -> None:
    """Milliseconds of each commit go to `times`: from the call, with all records already handed over, to its end."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{number}", "linger.ms": 1, "acks": "all"}
    )
    producer.init_transactions(TIMEOUT_S)
    done, end = 0, 0.0
    while done <= WARM or time.perf_counter() < end:
        if done == WARM:
            end = time.perf_counter() + seconds
        producer.begin_transaction()
        for index in range(RECORDS):
            producer.produce(topic, bytes(100), partition=index % PARTITIONS)
        producer.flush(TIMEOUT_S)
        began = time.perf_counter()
        producer.commit_transaction(TIMEOUT_S)
        done += 1
        if done > WARM:
            times.append((time.perf_counter() - began) * 1000)


def main(arguments: list[str]) -> None:
    bootstrap, topic, count, seconds = arguments[0], arguments[1], int(arguments[2]), float(arguments[3])
    times = list[float]()
    threads = [
        threading.Thread(target=commit, args=(bootstrap, topic, number, seconds, times)) for number in range(count)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    times.sort()
    print(json.dumps({"count": len(times), "p50": times[len(times) // 2], "seconds": took}))


if __name__ == "__main__":
    main(sys.argv[1:])
