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
"""The verdict of `GET /v1/cluster/health`. The resource is any broker, which answers for the whole cluster."""
NODE_STATUS: Final = "kraft.status.node"
"""The disks and the waiting replicas of one broker. That broker answers, or the active controller for its own node."""
WAITING_ELECTIONS: Final = "kraft.status.elections"
"""The partitions of a topic that wait for a leader, or those of all topics if the resource is a broker. Any broker
answers, with the state of the active controller."""

HISTORY: Final = "kraft.status.history"
"""The last hour of a broker, or of a topic or group as one broker sees it. The requested broker answers."""

TOPIC_FACTS: Final = "kraft.status.topic"
"""The records, the bytes and the traffic per second of a topic. Each broker answers for its own part."""

TOPIC_GROUPS: Final = "kraft.status.topic.groups"
"""The groups that use a topic. Each coordinator answers for its own groups. Only super users (nodes) get an answer,
since group ids are not public."""

GROUP_PROGRESS: Final = "kraft.status.group.progress"
"""The last commit of each partition of a group, and its members that are stuck or slow. Its coordinator answers."""

SHARE_RECORDS: Final = "kraft.status.group.share"
"""The records in flight of a share group. Each broker answers for the partitions that it leads."""

LOG_DIRS: Final = "kraft.status.log.dirs"
"""The bytes of all replicas in each log directory of one broker, by path. That broker answers."""

CLIENTS: Final = "kraft.status.clients"
"""The clients that push their metrics to one broker, each with a summary. That broker answers."""

CLIENT: Final = "kraft.status.client"
"""The metrics that one client pushes. The resource is a client-metrics resource named by the client's instance id. Each
broker to which the client pushes answers."""

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
