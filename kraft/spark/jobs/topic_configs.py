"""A cluster's configurations of a topic."""

from __future__ import annotations

from kraft.common.config.resource_type import ResourceType
from kraft.mirror.topic_configs import Configs, TopicConfig
from kraft.protocol.error_codes import name_of
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.asking import ask_any
from kraft.spark.jobs.running import JobFailed

TOPIC_SOURCE = 1
"""DescribeConfigsResponse.ConfigSource.TOPIC_CONFIG: set for this topic. Others are defaults."""


def describe(at: Access, topic: str) -> Configs:
    """Return all configurations of a topic, including defaults. Raises JobFailed."""
    wanted = DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name=topic, configuration_keys=None)
    what = f"configurations of topic {topic} at {at.bootstrap}"
    found = ask_any(at, DescribeConfigsRequest(resources=[wanted]), f"{what}: ").results[0]
    if found.error_code:
        raise JobFailed(
            f"{what}: {name_of(found.error_code)}" + (f" ({found.error_message})" if found.error_message else "")
        )
    return {each.name: TopicConfig(each.value, each.config_source == TOPIC_SOURCE) for each in found.configs}
