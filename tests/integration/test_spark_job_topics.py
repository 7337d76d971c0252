"""What the jobs of `kraft spark` ask of a cluster before Spark has anything to do: configurations, offsets, and
topics that are created."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kraft.mirror.topic_configs import carried, dangers
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.log_side import log_side
from kraft.spark.jobs.running import JobFailed, JobNotFound
from kraft.spark.jobs.topic_configs import describe
from kraft.spark.jobs.topics import ensure_topic
from tests.integration.clusters import Cluster


def test_a_topic_is_created_with_the_settings_of_another(cluster: Cluster) -> None:
    cluster.create(
        "source",
        2,
        cleanup_policy="compact",
        max_message_bytes="2000000",
        min_insync_replicas="1",
        message_timestamp_type="LogAppendTime",
    )
    source = describe(Access(cluster.bootstrap), "source")
    wanted = {
        "cleanup.policy": "compact",
        "max.message.bytes": "2000000",
        "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    }
    assert carried(source) == wanted
    assert ensure_topic(Access(cluster.bootstrap), "target", 2, carried(source)).partitions == 2
    target = describe(Access(cluster.bootstrap), "target")
    assert {name: config.value for name, config in target.items() if config.explicit} == wanted
    assert dangers(source, target) == []
    ensure_topic(Access(cluster.bootstrap), "plain", 1)
    assert [each.split(" (")[0] for each in dangers(source, describe(Access(cluster.bootstrap), "plain"))] == [
        "keeps 604800000 ms"
    ]


def test_a_rejected_configuration_is_named(cluster: Cluster) -> None:
    with pytest.raises(JobFailed, match=r"topic odd cannot be created with strange\.setting=1: .*strange\.setting"):
        ensure_topic(Access(cluster.bootstrap), "odd", 1, {"strange.setting": "1"})
    with pytest.raises(JobFailed, match=r"topic odd cannot be created with retention\.ms=soon: .*retention\.ms"):
        ensure_topic(Access(cluster.bootstrap), "odd", 1, {"retention.ms": "soon"})


def test_a_side_of_a_comparison_has_the_log_start_and_end_offsets(cluster: Cluster) -> None:
    cluster.create("begun", 2, cleanup_policy="delete")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(6):
        producer.produce("begun", b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})  # Kept until the answer is there.
    for future in admin.delete_records([TopicPartition("begun", 0, 4)]).values():
        future.result(30)
    for committed in (False, True):
        side = log_side(Access(cluster.bootstrap), "begun", committed=committed)
        assert (side.starts, side.ends, side.compacted) == ({0: 4, 1: 0}, {0: 6, 1: 0}, False)
    with pytest.raises(JobNotFound, match="topic nowhere does not exist"):
        log_side(Access(cluster.bootstrap), "nowhere", committed=False)
