"""What a job asks of its source, without Spark."""

from __future__ import annotations

import json

import pytest

from kraft.common.ids import TopicPartition
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.job_state import check_same
from kraft.spark.jobs.reading import AS_IT_IS, Reading, starts_of
from kraft.spark.jobs.running import JobFailed
from kraft.spark.jobs.topics import log_starts
from kraft.spark.source.options import EARLIEST, Everywhere, SpecificOffsets, batch_options, stream_options
from tests.unit.spark.fake_cluster import FakeCluster

AT = Access("h:1")


def test_a_job_keeps_every_part_of_a_record_or_fails() -> None:
    asked = stream_options(AS_IT_IS.stream_options(AT, "t", 7))
    assert (asked.starting, asked.offsets_per_trigger_max, asked.include_headers) == (Everywhere(-2), 7, True)
    assert (asked.fail_on_data_loss, asked.refuse_names, asked.direct) == (True, True, True)


def test_a_retried_batch_starts_where_its_first_run_started_despite_lost_records() -> None:
    known = json.loads(json.dumps({"starts": {0: 5, 10: 7}}))
    asked = stream_options(AS_IT_IS.stream_options(AT, "t", 7, starts_of(known, 12)))
    added = {TopicPartition("t", each): EARLIEST for each in range(12)}
    assert asked.starting == SpecificOffsets({**added, TopicPartition("t", 0): 5, TopicPartition("t", 10): 7})
    assert starts_of({"job": "mirror"}, 12) is None
    assert starts_of({"job": "mirror", "starts": None}, 12) is None


def test_log_start_offsets_are_requested_from_the_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, t=3)
    cluster.topics["t"][1].low = 9
    assert log_starts(AT, "t") == {0: 0, 1: 9, 2: 0}
    with pytest.raises(JobFailed, match=r"the first offsets of topic u at h:1: .*UNKNOWN_TOPIC_OR_PARTITION"):
        log_starts(AT, "u")


def test_lost_records_and_values_that_cannot_be_copied_are_skipped_on_request() -> None:
    asked = stream_options(Reading(skip_lost=True, replace_names=True).stream_options(AT, "t", 7))
    assert (asked.fail_on_data_loss, asked.refuse_names) == (False, False)


def test_only_the_built_in_client_reads_committed_records_alone() -> None:
    asked = batch_options(Reading(committed=True).options(AT, "t"))
    assert asked.kafka["isolation.level"] == "read_committed"
    assert (asked.direct, asked.committed) == (True, True)


def test_the_isolation_level_stays_the_same_between_runs() -> None:
    check_same(AS_IT_IS.remembered, AS_IT_IS.remembered, "here")
    check_same({}, AS_IT_IS.remembered, "here")
    with pytest.raises(
        JobFailed, match="here belongs to a run with reads all records, but this run has committed records"
    ):
        check_same(AS_IT_IS.remembered, Reading(committed=True).remembered, "here")
    with pytest.raises(JobFailed, match="reads all records"):
        check_same({"job": "mirror"}, Reading(committed=True).remembered, "here")


@pytest.mark.parametrize(
    ("asked", "known", "is_begun", "expected"),
    [
        (None, None, False, True),
        (None, None, True, False),
        (None, {"job": "mirror"}, True, False),
        (None, {"reads": "all records"}, False, False),
        (None, {"reads": "committed records"}, True, True),
        (False, None, False, False),
        (True, {"reads": "all records"}, True, True),
    ],
)
def test_committed_records_are_read_unless_this_or_the_first_run_chose_otherwise(
    asked: bool | None, known: dict[str, str] | None, is_begun: bool, expected: bool
) -> None:
    assert Reading(committed=asked).settled(known, is_begun=is_begun).committed is expected
