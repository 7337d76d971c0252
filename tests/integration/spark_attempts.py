"""One try of a micro-batch, from its rows to its commit, in a process of its own, for tests that kill it.

`python -m tests.integration.spark_attempts BOOTSTRAP TOPIC BATCH ROWS`

The rows `BATCH:0`, `BATCH:1`, ... come in another order each time. Says `handed on` when they are staged, `took` before
each piece is written, and `done` at the end.
"""

from __future__ import annotations

import random
import sys

from kraft.spark.client.wire import WireCluster
from kraft.spark.sink import batch_commit, batch_sender, row_packer
from kraft.spark.sink import exactly_once_writer as once_writer
from kraft.spark.sink.batch_commit import BatchContent, BatchOrigin, CommitRules, SinkIdentity, commit_batch
from kraft.spark.sink.exactly_once_writer import OnceWriter
from kraft.spark.sink.staging import Staging
from tests.unit.spark.sink_rows import incoming_rows

PIECE_BYTES = 1000


class TellingStaging(Staging):
    def get(self, *wanted: object) -> bytes:
        print("took", flush=True)
        return super().get(*wanted)  # type: ignore[arg-type]


def main(bootstrap: str, topic: str, batch: str, rows: str) -> None:
    # Everything is staged, and written piece by piece.
    row_packer.BATCH_BYTES = once_writer.INLINE_BYTES_MAX = once_writer.STAGE_BYTES = PIECE_BYTES
    batch_sender.ROUND_BYTES = 1
    batch_commit.Staging = TellingStaging  # type: ignore[misc]
    sink, wires = SinkIdentity("query", topic, ""), WireCluster(bootstrap)
    numbers = random.SystemRandom().sample(range(int(rows)), int(rows))
    writer = OnceWriter(wires, int(batch), 0, 0, Staging(wires, sink.staging_topic), lambda: None)
    rows = [(topic, b"key-%d" % n, b"%d:%d" % (int(batch), n), None, None, None) for n in numbers]
    writer.write(incoming_rows(rows))
    parcels = writer.finish()
    print("handed on", flush=True)
    content = BatchContent(len(rows), parcels)
    commit_batch(wires, sink, BatchOrigin("query", int(batch), ""), content, CommitRules(60_000, "fail", False))
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
