"""What a comparison reads of a topic, and what counts as an archive. Without Spark."""

from __future__ import annotations

from pathlib import Path

from kraft.common.ids import TopicPartition
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.archive import is_archive
from kraft.spark.jobs.log_side import LogSide
from kraft.spark.jobs.reading import Reading
from kraft.spark.source.options import SpecificOffsets, batch_options


def test_a_comparison_reads_the_log_up_to_its_end_at_the_start() -> None:
    reading = Reading(committed=True, replace_names=True)
    side = LogSide(
        topic="t", at=Access("h:1"), reading=reading, starts={0: 5, 1: 0}, ends={0: 9, 1: 0}, compacted=False
    )
    asked = batch_options(side.options())
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    assert (asked.starting, asked.ending) == (
        SpecificOffsets({first: 5, second: 0}),
        SpecificOffsets({first: 9, second: 0}),
    )
    assert (asked.fail_on_data_loss, asked.refuse_names, asked.kafka["isolation.level"]) == (
        True,
        False,
        "read_committed",
    )


def test_an_empty_archive_is_an_archive_and_a_plain_directory_is_not(tmp_path: Path) -> None:
    assert not is_archive(tmp_path)
    (tmp_path / "_checkpoint").mkdir()
    assert not is_archive(tmp_path)
    (tmp_path / "_checkpoint/kraft-job.json").write_text("{}")
    assert is_archive(tmp_path)
    (tmp_path / "earlier/batch=00000000").mkdir(parents=True)
    assert is_archive(tmp_path / "earlier")
