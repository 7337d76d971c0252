"""Options of a stream that reads from a share group."""

from __future__ import annotations

import re

import pytest

from kraft.spark.source.options import batch_options
from kraft.spark.source.share_options import WITHOUT_SHARE_GROUP, share_options

BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
SHARE = {**BASE, "shareGroup": "workers"}


def test_a_stream_of_a_share_group_never_fails_for_records_that_retention_deleted() -> None:
    options = share_options({**SHARE, "readers": "4", "maxOffsetsPerTrigger": "10"})
    assert (options.share_group, options.readers, options.offsets_per_trigger_max) == ("workers", 4, 10)
    assert not options.fail_on_data_loss


@pytest.mark.parametrize("name", sorted(WITHOUT_SHARE_GROUP))
def test_options_without_meaning_for_a_share_group_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=rf"Option {re.escape(name)} cannot be combined with shareGroup: \S"):
        share_options({**SHARE, name: "1"})


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"shareGroup": " "}, "Option shareGroup must name a share group"),
        ({"readers": "0"}, "readers must be positive"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger must be positive"),
        ({"fetcher": "librdkafka"}, "Option fetcher=librdkafka cannot be combined with shareGroup"),
        ({"kafka.client.rack": "a"}, r"Option kafka\.client\.rack cannot be combined with shareGroup"),
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
    ],
)
def test_values_that_a_share_group_cannot_use_are_refused(more: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        share_options({**SHARE, **more})


def test_a_batch_read_refuses_a_share_group() -> None:
    with pytest.raises(ValueError, match=r"Option shareGroup needs spark\.readStream"):
        batch_options(SHARE)


def test_readers_need_a_share_group() -> None:
    with pytest.raises(ValueError, match=r"Option readers needs shareGroup"):
        share_options({**BASE, "readers": "2"})
