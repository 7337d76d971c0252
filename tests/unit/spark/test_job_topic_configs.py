"""What a mirrored topic takes over from its source, and what is told of one that is there already. Without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.mirror.topic_configs import Configs, TopicConfig, carried, dangers, is_compacted, shown
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.api_versions_response import ApiVersion
from kraft.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kraft.spark.jobs import mirror as mirrors
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.mirror import Mirror, prepared_target
from kraft.spark.jobs.running import JobFailed, Notice, Progress
from kraft.spark.jobs.topic_configs import describe
from kraft.spark.jobs.topics import SeenTopic
from tests.unit.spark.fake_cluster import FakeCluster


def configs(**values: str | None) -> Configs:
    """Set for the topic; names with _ for dots."""
    return {name.replace("_", "."): TopicConfig(value, True) for name, value in values.items()}


def test_explicit_topic_configs_of_the_source_are_copied_and_defaults_are_not() -> None:
    source = {
        **configs(retention_ms="-1", max_message_bytes="9000000", cleanup_policy="compact,delete"),
        "segment.bytes": TopicConfig("1073741824", False),
    }
    found = carried(source)
    assert found == {
        "cleanup.policy": "compact,delete",
        "max.message.bytes": "9000000",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
    }
    assert shown(found) == (
        "cleanup.policy=compact,delete, max.message.bytes=9000000, retention.ms=-1, message.timestamp.type=CreateTime"
    )


def test_cluster_specific_and_timestamp_configs_are_not_copied() -> None:
    source = configs(
        min_insync_replicas="2",
        unclean_leader_election_enable="true",
        leader_replication_throttled_replicas="*",
        follower_replication_throttled_replicas="*",
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms="1000",
        message_timestamp_after_max_ms="1000",
        remote_storage_enable="true",
        local_retention_ms="5",
        preallocate="true",
        compression_type="zstd",
        secret=None,
    )
    assert carried(source) == {"compression.type": "zstd", "message.timestamp.type": "CreateTime"}


def test_a_target_with_shorter_retention_than_the_source_is_reported() -> None:
    week = configs(retention_ms="604800000", retention_bytes="-1")
    assert dangers(configs(retention_ms="-1"), week) == [
        "keeps 604800000 ms (retention.ms), and the source all: the rest is deleted there, however lately it was copied"
    ]
    assert dangers(configs(retention_ms="604800001"), week)[0].startswith(
        "keeps 604800000 ms (retention.ms), and the source 604800001 ms"
    )
    assert dangers(configs(cleanup_policy="compact", retention_ms="1"), week)[0].startswith(
        "keeps 604800000 ms (retention.ms), and the source all"
    )
    assert dangers(configs(retention_bytes="10"), configs(retention_bytes="9"))[0].startswith(
        "keeps 9 bytes a partition (retention.bytes), and the source 10"
    )
    for target in (week, configs(retention_ms="-1"), configs(), configs(cleanup_policy="compact", retention_ms="1")):
        assert dangers({**week, **configs(cleanup_policy="compact,delete")}, target) == []


def test_a_target_whose_configs_change_records_is_reported() -> None:
    assert dangers(configs(), configs(cleanup_policy="compact")) == [
        "is compacted (cleanup.policy), and the source is not: only the last value of each key stays there"
    ]
    assert "timestamps of its own" in dangers(configs(), configs(message_timestamp_type="LogAppendTime"))[0]
    assert is_compacted(configs(cleanup_policy="delete, compact"))
    assert not is_compacted(configs(cleanup_policy="delete"))


class ConfiguredCluster(FakeCluster):
    """Answers DescribeConfigs with one setting of the topic and one default, or with an error."""

    code = ErrorCode.NONE

    def on_apiversions(self, request: Any) -> Any:
        answer = super().on_apiversions(request)
        answer.api_keys.append(ApiVersion(api_key=32, min_version=1, max_version=4))
        return answer

    def on_describeconfigs(self, request: Any) -> Any:
        (asked,) = request.resources
        told = [
            DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=1),
            DescribeConfigsResourceResult(name="segment.ms", value="7", config_source=5),
        ]
        whole = DescribeConfigsResult(
            error_code=self.code,
            error_message="not you",
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
        )
        whole.configs = [] if self.code else told
        return DescribeConfigsResponse(results=[whole])


def test_topic_configs_are_requested_from_a_broker_and_a_refusal_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ConfiguredCluster(monkeypatch, t=1)
    assert describe(Access("h:1"), "t") == {
        "retention.ms": TopicConfig("5", True),
        "segment.ms": TopicConfig("7", False),
    }
    cluster.code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(JobFailed, match=r"configurations of topic t at h:1: TOPIC_AUTHORIZATION_FAILED \(not you\)"):
        describe(Access("h:1"), "t")


WANTED = Mirror(topic="s", source=Access("a:1"), target=Access("b:1"), target_topic="t")
SOURCE, ABSENT, THERE = SeenTopic("A", "1", 3), SeenTopic("B", None, None), SeenTopic("B", "2", 3)


class Preparing:
    """`prepared_target` between two clusters of which only the configurations are known. `created` is what topics
    were created with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, source: Configs, target: Configs) -> None:
        self.created: list[dict[str, str]] = []
        self.refusal: JobFailed | None = None
        self.said: list[Notice | Progress] = []
        monkeypatch.setattr(mirrors, "describe", lambda at, _: source if at == WANTED.source else target)
        monkeypatch.setattr(mirrors, "ensure_topic", self.ensure)

    def ensure(self, at: Access, topic: str, partitions: int, wanted: dict[str, str]) -> SeenTopic:
        assert (at.bootstrap, topic, partitions) == ("b:1", "t", 3)
        if self.refusal is not None:
            raise self.refusal
        self.created.append(wanted)
        return THERE

    def run(self, target: SeenTopic, *, with_configs: bool = True) -> tuple[SeenTopic, dict[str, str]]:
        wanted = Mirror(topic="s", source=Access("a:1"), target=Access("b:1"), target_topic="t", configs=with_configs)
        return prepared_target(wanted, SOURCE, target, self.said.append)


def test_a_created_target_gets_the_sources_explicit_configs_and_this_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    preparing = Preparing(monkeypatch, configs(retention_ms="-1"), configs(retention_ms="-1"))
    whole = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
    assert preparing.run(ABSENT) == (THERE, whole)
    assert preparing.created == [whole]
    assert preparing.said == [Notice("created topic t at b:1 with retention.ms=-1, message.timestamp.type=CreateTime")]


def test_a_target_created_without_configs_has_defaults_and_their_retention_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    preparing = Preparing(monkeypatch, configs(retention_ms="-1"), configs(retention_ms="6"))
    assert preparing.run(ABSENT, with_configs=False) == (THERE, {})
    assert preparing.created == [{}]
    created, danger = preparing.said
    assert created == Notice("created topic t at b:1 with the defaults there")
    assert isinstance(danger, Notice)
    assert danger.is_warning
    assert danger.text.startswith("topic t at b:1 keeps 6 ms (retention.ms), and the source all")


def test_an_existing_target_is_not_changed_and_its_retention_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    preparing = Preparing(monkeypatch, configs(retention_ms="9"), configs(retention_ms="8"))
    assert preparing.run(THERE) == (THERE, {})
    assert preparing.created == []
    assert [isinstance(each, Notice) and each.is_warning for each in preparing.said] == [True]


def test_a_config_refused_by_the_target_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    preparing = Preparing(monkeypatch, configs(odd="1"), configs())
    preparing.refusal = JobFailed("topic t cannot be created with odd=1: Unknown topic config name: odd")
    with pytest.raises(
        JobFailed,
        match=r"Unknown topic config name: odd \(they are copied from s at the source; --no-configs leaves them out\)",
    ):
        preparing.run(ABSENT)
    with pytest.raises(JobFailed, match=r"config name: odd$"):
        preparing.run(ABSENT, with_configs=False)
