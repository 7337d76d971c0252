"""Facts of a cluster's health, as tests make them."""

from __future__ import annotations

from kraft_http.ports import BrokerFacts, ClusterFacts

FINE = ClusterFacts(
    controller_id=1,
    controller_epoch=4,
    voters=(1, 2, 3),
    brokers=(BrokerFacts(node_id=1, host="a", port=1), BrokerFacts(node_id=2, host="b", port=2)),
    topics_count=3,
    partitions_count=9,
    impaired=(),
    disk_free_bytes=50,
    disk_total_bytes=100,
)
