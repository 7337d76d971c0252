"""How a job reads a topic: which records it reads, and which problems end the job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kraft.spark.jobs.access import Access
from kraft.spark.source.options import EARLIEST

Starts = dict[int, int]
"""Log start offsets by partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The reading options of a job. `committed` leaves out records of aborted and open transactions; if False, they are
    read too; None keeps the choice of earlier runs. `skip_lost` skips, with a warning, offsets that the log no longer
    holds. `replace_names` replaces bytes of header names that are not UTF-8, as Java does. Without the last two
    options, such records end the job."""

    committed: bool | None = None
    skip_lost: bool = False
    replace_names: bool = False

    def options(self, at: Access, topic: str) -> dict[str, str]:
        """Return the options of the source."""
        found = {
            **at.options,
            "subscribe": topic,
            "includeHeaders": "true",
            "failOnDataLoss": "false" if self.skip_lost else "true",
        }
        if self.committed:
            found["kafka.isolation.level"] = "read_committed"
        return {**found, "headerNames": "replace" if self.replace_names else "refuse"}

    def stream_options(
        self, at: Access, topic: str, records_per_batch: int, starts: Mapping[int, int] | None = None
    ) -> dict[str, str]:
        """Return the options of the source of a resumable job. `starts` is where the job's first run started, for every
        current partition. Spark asks for these offsets again until a batch is done, and records that retention deleted
        meanwhile must be reported as lost."""
        begin = (
            "earliest"
            if starts is None
            else json.dumps({topic: {str(partition): offset for partition, offset in sorted(starts.items())}})
        )
        return {
            **self.options(at, topic),
            "startingOffsets": begin,
            "maxOffsetsPerTrigger": str(records_per_batch),
        }

    @property
    def remembered(self) -> dict[str, str | None]:
        """The options that must be the same in every run, so that a retried batch has the same rows."""
        return {"reads": COMMITTED_RECORDS if self.committed else ALL_RECORDS}

    def settled(self, known: Mapping[str, Any] | None, *, is_begun: bool) -> Reading:
        """Return the options with `committed` set. If this run does not give it, the choice of the first run counts.
        `known` is the first run's document. The default is True."""
        if self.committed is not None:
            return self
        before = COMMITTED_RECORDS if known is None and not is_begun else (known or {}).get("reads", ALL_RECORDS)
        return replace(self, committed=before == COMMITTED_RECORDS)


COMMITTED_RECORDS = "committed records"
ALL_RECORDS = "all records"
"""Earlier versions read all records, and did not store the choice."""
AS_IT_IS = Reading()


def starts_of(known: Mapping[str, Any], partitions: int) -> Starts | None:
    """Return the offsets at which the first run started; None if they were not recorded. Partitions added since then
    are read from their start."""
    found = known.get("starts")
    return (
        None
        if found is None
        else {
            **dict.fromkeys(range(partitions), EARLIEST),
            **{int(partition): offset for partition, offset in found.items()},
        }
    )
