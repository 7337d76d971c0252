"""Status keys: a node's state in DescribeConfigs, for what Kafka's protocol has no request.

DescribeConfigs returns a status key only if the request names it. Its value is a JSON document. A value on the wire has
at most 32,767 bytes, so the document is split into pages: entries `KEY.0`, `KEY.1` and so on. Apache Kafka leaves
unknown keys out, so the requester sees that the key is not supported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

CLUSTER_HEALTH: Final = "kraft.status.health"
"""Of the cluster (a broker resource), answered by any broker: the verdict of `GET /v1/cluster/health`."""
NODE_STATUS: Final = "kraft.status.node"
"""Of one broker, answered by it; for the active controller's own node by that: disks, and waiting replicas."""
WAITING_ELECTIONS: Final = "kraft.status.elections"
"""Of a topic, or of all (a broker resource), answered by any broker: partitions that wait for a leader, from the active
controller."""

HISTORY: Final = "kraft.status.history"
"""Of one broker, or of a topic or group on one broker, answered by it: the last hour."""

TOPIC_FACTS: Final = "kraft.status.topic"
"""Of a topic, answered by each broker for its own part: records, bytes, and traffic per second."""

TOPIC_GROUPS: Final = "kraft.status.topic.groups"
"""Of a topic, answered by each coordinator for its own groups, to super users (nodes) only, since group ids are not
public: the groups that use the topic."""

GROUP_PROGRESS: Final = "kraft.status.group.progress"
"""Of a group, answered by its coordinator: the last commit of each partition, and members that are stuck or slow."""

SHARE_RECORDS: Final = "kraft.status.group.share"
"""Of a share group, answered by each broker for the partitions that it leads: the records in flight."""

LOG_DIRS: Final = "kraft.status.log.dirs"
"""Of one broker, answered by it: the bytes of all replicas in each log directory, by path."""

CLIENTS: Final = "kraft.status.clients"
"""Of one broker, answered by it: the clients that push their metrics to it, each with a summary."""

CLIENT: Final = "kraft.status.client"
"""Of one client (a client-metrics resource, named by its instance id), answered by each broker to which it pushes: its
numbers."""

STATUS_KEYS: Final = frozenset(
    (
        *(CLUSTER_HEALTH, NODE_STATUS, WAITING_ELECTIONS, HISTORY, LOG_DIRS),
        *(TOPIC_FACTS, TOPIC_GROUPS, GROUP_PROGRESS, SHARE_RECORDS),
        *(CLIENTS, CLIENT),
    )
)

PAGE_CHARS: Final = 30_000


def pages_of(key: str, document: Any) -> Iterator[tuple[str, str]]:
    """The (name, value) of each page. The text is ASCII: a character is a byte."""
    text = json.dumps(document, separators=(",", ":"))
    for page, start in enumerate(range(0, len(text), PAGE_CHARS)):
        yield f"{key}.{page}", text[start : start + PAGE_CHARS]


def document_of(key: str, entries: Iterable[tuple[str, str | None]]) -> Any | None:
    """The document from the (name, value) entries of a response; None if there is none. Raises ValueError for invalid
    JSON."""
    pages = {
        int(number): value or ""
        for name, value in entries
        if (number := name.removeprefix(f"{key}.")) != name and number.isdigit()
    }
    return json.loads("".join(pages[page] for page in sorted(pages))) if pages else None
