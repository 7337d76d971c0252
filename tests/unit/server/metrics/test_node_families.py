"""What the quorum's series come to."""

from __future__ import annotations

from kraft.protocol.messages.describe_quorum_response import PartitionData, ReplicaState
from kraft.server.metrics.node_families import quorum_lags


def test_a_node_with_a_replaced_disk_has_one_series_of_each_kind() -> None:
    """Its former directory is known for as long as any observer that fell silent."""
    partition = PartitionData(
        leader_id=1,
        current_voters=[ReplicaState(replica_id=1, log_end_offset=100, last_caught_up_timestamp=9_000)],
        observers=[
            ReplicaState(replica_id=4, log_end_offset=40, last_caught_up_timestamp=2_000),
            ReplicaState(replica_id=4, log_end_offset=90, last_caught_up_timestamp=8_000),
            ReplicaState(replica_id=5, log_end_offset=-1, last_caught_up_timestamp=-1),
        ],
    )
    lag, age = quorum_lags(partition, 100, 10_000)
    assert list(lag.read()) == [(("1", "voter"), 0.0), (("4", "observer"), 10.0), (("5", "observer"), 100.0)]
    assert list(age.read()) == [(("4", "observer"), 2.0)]
