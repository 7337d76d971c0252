"""How a job reads a topic: what of it, and what ends the job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`committed` leaves out records of transactions that were aborted, or are still open (else they are read like any other). `skip_lost` leaves out, with
    a warning, offsets that the log does not hold any more. `replace_names` replaces bytes of header names that are not UTF-8, as Java does. What is not
    asked for ends the job.
    """

    committed: bool = False
    skip_lost: bool = False
    replace_names: bool = False

    def options(self, bootstrap: str, topic: str) -> dict[str, str]:
        """Of the source."""
        found = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true", "failOnDataLoss": "false" if self.skip_lost else "true"}
        if self.committed:
            found["kafka.isolation.level"] = "read_committed"
        return {**found, "headerNames": "replace" if self.replace_names else "refuse"}

    def stream_options(self, bootstrap: str, topic: str, records_per_batch: int) -> dict[str, str]:
        """Of the source of a job that goes on where it stopped."""
        return {**self.options(bootstrap, topic), "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(records_per_batch)}

    @property
    def remembered(self) -> dict[str, str | None]:
        """What must stay the same from run to run: a batch that is tried again has the same rows."""
        return {"reads": "committed records" if self.committed else ALL_RECORDS}


ALL_RECORDS = "all records"
"""What runs of versions that remember nothing of it have read."""
AS_IT_IS = Reading()
