"""Which replicas a throttle lists."""

from __future__ import annotations

from kraft.admin.throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS, PAIRS_MAX, ThrottledReplicas, throttled_pairs
from kraft.common.ids import TopicPartition


def test_replicas_are_listed_by_partition_and_broker_in_the_topics_own_lists() -> None:
    pairs = throttled_pairs(
        {
            TopicPartition("b", 0): ThrottledReplicas([1], []),
            TopicPartition("a", 1): ThrottledReplicas([3], [4]),
            TopicPartition("a", 0): ThrottledReplicas([1, 2], [4]),
        }
    )
    assert pairs == {
        "a": {LEADER_REPLICAS: "0:1,0:2,1:3", FOLLOWER_REPLICAS: "0:4,1:4"},
        "b": {LEADER_REPLICAS: "0:1"},
    }


def test_a_list_that_would_be_long_holds_all_replicas() -> None:
    most = {TopicPartition("a", index): ThrottledReplicas([1], [2]) for index in range(PAIRS_MAX)}
    assert throttled_pairs(most)["a"][LEADER_REPLICAS].count(":") == PAIRS_MAX
    assert throttled_pairs(most | {TopicPartition("a", PAIRS_MAX): ThrottledReplicas([1], [])})["a"] == {
        LEADER_REPLICAS: "*",
        FOLLOWER_REPLICAS: ",".join(f"{index}:2" for index in range(PAIRS_MAX)),
    }
