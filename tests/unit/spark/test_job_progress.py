"""How far behind a job says it is, from Spark's progress reports."""

from __future__ import annotations

from kraft.spark.jobs.running import behind


def test_progress_counts_topic_records_beyond_the_batch_and_no_files() -> None:
    assert behind([]) is None
    assert behind([{"latestOffset": None, "endOffset": {"logOffset": 3}}]) is None
    latest = {"a": {"0": 10, "1": 5}, "new": {"0": 3}}
    ends = {"a": {"0": 4, "00": 2, "1": 6}}
    assert behind([{"latestOffset": latest, "endOffset": ends}]) == 6 + 3
    assert behind([{"latestOffset": ends, "endOffset": ends}]) == 0
