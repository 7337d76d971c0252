"""Moves of partitions under a throttle."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import httpx

from kraft.testing.process_cluster import ProcessCluster

PARTITIONS = 3


RECORDS, RECORD_BYTES = 60, 50_000


TOPIC, LOAD = "moved", "load"


class AdminCluster(ProcessCluster):
    """`asked` is the active controller, `leaver` holds the topic's partitions first."""

    asked = leaver = 0

    def call(self, node: int, method: str, path: str, body: Any = None) -> httpx.Response:
        return httpx.request(method, f"{self.nodes[node].admin_url}{path}", json=body, timeout=30)

    def get(self, node: int, path: str) -> Any:
        answer = self.call(node, "GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def progress(self, node: int) -> Any:
        return self.get(node, "/v1/reassignments")

    def base(self, node: int) -> str:
        return f"/v3/clusters/{self.get(node, '/v1/node')['cluster_id']}"

    def replicas(self, node: int) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for index in range(PARTITIONS):
            listed = self.get(node, f"{self.base(node)}/topics/{TOPIC}/partitions/{index}/replicas")["data"]
            found[index] = sorted(each["broker_id"] for each in listed)
        return found

    def create(self, topic: str, assignments: dict[str, list[int]]) -> None:
        body = {"topic_name": topic, "replicas_assignments": assignments}
        assert self.call(self.asked, "POST", f"{self.base(self.asked)}/topics", body).status_code == 201

    def throttled_keys(self, node: int) -> list[str]:
        """Keys of throttles that are set on a broker that runs, or on the topic."""
        found = []
        for path in (*(f"/brokers/{broker}/configs" for broker in self.running), f"/topics/{TOPIC}/configs"):
            found += [
                f"{path} {each['name']}"
                for each in self.get(node, self.base(node) + path)["data"]
                if ".replication.throttled." in each["name"] and each["source"].startswith("DYNAMIC")
            ]
        return found


def controller(cluster: AdminCluster) -> int:
    return int(cluster.get(1, f"{cluster.base(1)}/quorum")["leader_id"])


def fill(cluster: AdminCluster, records: int = RECORDS * PARTITIONS, partitions: int = PARTITIONS) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(records):
        producer.produce(TOPIC, bytes(RECORD_BYTES), partition=number % partitions)
        producer.poll(0)
    assert producer.flush(60) == 0
