"""One attempt of one task of a micro-batch in a process of its own, for tests that kill it.

`python -m tests.integration.spark_attempts BOOTSTRAP TOPIC BATCH ROWS`

Writes the rows `BATCH:0`, `BATCH:1`, ... in small rounds and says `pushed N` after each, `done` at the end.
"""

from __future__ import annotations

import sys

from kraft.spark.batch_identity import BatchIdentity
from kraft.spark.once_writer import OnceWriter
from kraft.spark.wire import WireCluster

ROUND_ROWS = 20


def main(bootstrap: str, topic: str, batch: str, rows: str) -> None:
    writer = OnceWriter(WireCluster(bootstrap), BatchIdentity("query", int(batch), 0), 0)
    count = int(rows)
    for start in range(0, count, ROUND_ROWS):
        numbers = range(start, min(start + ROUND_ROWS, count))
        writer.write(
            [(topic, b"key-%d" % number, b"%d:%d" % (int(batch), number), None, None, None) for number in numbers]
        )
        writer.topics[topic].push()
        print(f"pushed {numbers.stop}", flush=True)
    writer.finish()
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
