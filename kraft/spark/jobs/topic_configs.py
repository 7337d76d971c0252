"""The configurations of a topic, and the broker configurations that a job needs."""

from __future__ import annotations

from kraft.common.config.resource_type import ResourceType
from kraft.mirror.topic_configs import Configs, TopicConfig
from kraft.protocol.error_codes import name_of
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.spark.client.wire import WireCluster
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.cluster_requests import ask_any, asked
from kraft.spark.jobs.running import JobFailed

TOPIC_SOURCE = 1
"""DescribeConfigsResponse.ConfigSource.TOPIC_CONFIG: set for this topic. Others are defaults."""
TRANSACTION_MAX = "transaction.max.timeout.ms"
TRANSACTION_MAX_MS = 900_000
"""Kafka's default of transaction.max.timeout.ms."""


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


def transaction_max_ms(at: Access) -> int:
    """Return the longest transaction timeout in ms that brokers permit. It is one broker's configuration, or the
    default if this user may not read that. Raises JobFailed if no broker responds."""

    def ask(cluster: WireCluster) -> int:
        cluster.view.learn_all(cluster.any_call(MetadataRequest(topics=[])))
        node, address = next(iter(sorted(cluster.view.nodes.items())))
        wanted = DescribeConfigsResource(
            resource_type=ResourceType.BROKER, resource_name=str(node), configuration_keys=[TRANSACTION_MAX]
        )
        found = cluster.call_at(address, DescribeConfigsRequest(resources=[wanted])).results[0]
        values = [each.value for each in found.configs if each.name == TRANSACTION_MAX and each.value]
        return int(values[0]) if values else TRANSACTION_MAX_MS

    return asked(at, ask, f"{TRANSACTION_MAX} of {at.bootstrap}: ")
