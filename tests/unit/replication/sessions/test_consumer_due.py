"""kraft/replication/sessions/consumer_due.py: what an answer depends on makes partitions due."""

from __future__ import annotations

from kraft.replication.sessions.consumer_due import ConsumerDue
from kraft.replication.sessions.fetch_session import CachedPartition, PartitionKey

WANTED = [CachedPartition(PartitionKey(b"t" * 16, "", index), 0, 1000, -1, -1, -1) for index in range(3)]
PARTITIONS = {cached.key: cached for cached in WANTED}


def test_a_change_of_the_clients_permissions_makes_every_partition_due() -> None:
    due, rights = ConsumerDue(0.0), object()
    due.asked(PARTITIONS, WANTED, rights, 0.0)
    assert due.begin(PARTITIONS) == WANTED
    due.due.clear()
    due.asked(PARTITIONS, WANTED[1:2], rights, 0.1)
    assert due.begin(PARTITIONS) == WANTED[1:2]
    due.due.clear()
    due.asked(PARTITIONS, [], object(), 0.2)
    assert {cached.key for cached in due.begin(PARTITIONS)} == set(PARTITIONS)
