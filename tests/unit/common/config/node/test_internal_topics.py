"""Every internal topic fits the brokers that there are."""

from __future__ import annotations

import pytest

from kraft.common.config.node.internal_topics import internal_topic_settings
from kraft.testing.cluster_security import ClusterSecurity
from kraft.testing.configurations import configurations


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_all_internal_topics_follow_one_rule(brokers: int, replicas: int, in_sync: int) -> None:
    settings = internal_topic_settings(brokers)
    copies = {name: int(value) for name, value in settings.items() if name.endswith("replication.factor")}
    assert copies == dict.fromkeys(
        (
            "offsets.topic.replication.factor",
            "share.coordinator.state.topic.replication.factor",
            "transaction.state.log.replication.factor",
        ),
        replicas,
    )
    assert {int(value) for name, value in settings.items() if name.endswith("min.isr")} == {in_sync}


def test_a_test_cluster_of_two_can_create_its_internal_topics(tmp_path) -> None:
    for config in configurations((1, 2), tmp_path, {}, ClusterSecurity(authorizer=False)).values():
        assert config.integer("transaction.state.log.replication.factor") == 2
        assert config.integer("transaction.state.log.min.isr") == 1
