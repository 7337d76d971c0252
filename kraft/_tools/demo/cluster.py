"""The three `kraft-node` processes of the demo, started with their time measured and queried through the HTTP admin
API."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from kraft._tools.demo.problem import DemoError
from kraft.testing.process_cluster import CLUSTER_ID, ProcessCluster

WAIT_SECONDS = 60.0
PAUSE_SECONDS = 0.05
REST_SECONDS_MAX = 30.0


class Cluster(ProcessCluster):
    """Static voters, each broker and controller, over directories below `place`. Signals of the terminal do not reach
    the nodes, so that they may continue after the demo."""

    def __init__(self, place: Path) -> None:
        super().__init__(place, admin=True, own_session=True)

    def seconds_to_start(self) -> float:
        """Start all nodes that are down together. Returns the seconds until all served. Raises NodeFailed."""
        begun = time.monotonic()
        self.start()
        return time.monotonic() - begun

    def leave(self) -> None:
        """Shut all nodes down. Raises DemoError if one exits with an error, NodeFailed if one does not end."""
        codes = self.stop()
        if any(codes):
            raise DemoError(f"the nodes left with exit codes {codes} when they were asked to stop")

    @property
    def admin_urls(self) -> list[str]:
        """The HTTP admin URLs of the nodes that run."""
        return [self.nodes[node].admin_url for node in self.running]

    def rest(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Call the HTTP admin API of a running node: each answers for the whole cluster. Raises DemoError with the
        server's message."""
        url = f"{self.admin_urls[0]}/v3/clusters/{CLUSTER_ID}{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=REST_SECONDS_MAX) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refused:
            raise DemoError(
                f"{method} {path} was refused ({refused.code}): {refused.read().decode(errors='replace')[:500]}"
            ) from refused
        except OSError as problem:
            raise DemoError(f"{method} {path} failed: {problem}") from problem

    def leader(self, topic: str, partition: int) -> int:
        """Return the id of the leader. Raises DemoError if there is none."""
        answer = self.rest("GET", f"/topics/{topic}/partitions/{partition}/replicas")
        for replica in answer["data"]:
            if replica["is_leader"]:
                return int(replica["broker_id"])
        raise DemoError(f"{topic}-{partition} has no leader")

    def until_in_sync(self, topic: str, partitions: int) -> None:
        """Wait until every replica of the topic is in sync. Raises DemoError."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            found = [
                self.rest("GET", f"/topics/{topic}/partitions/{partition}/replicas")["data"]
                for partition in range(partitions)
            ]
            if all(
                len(replicas) == len(self.nodes) and all(replica["is_in_sync"] for replica in replicas)
                for replicas in found
            ):
                return
            time.sleep(PAUSE_SECONDS)
        raise DemoError(f"the replicas of {topic} are not in sync after {WAIT_SECONDS:g} s")
