"""An HTTP edge over a scripted node, and what its answers are read with."""

from __future__ import annotations

import asyncio
from typing import Any

from kraft_http.ports import Caller, EventPage, NodeIdentity

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


class Port:
    """A node that has nothing to tell, and is asked for nothing."""

    identity = NodeIdentity(
        node_id=1, roles=("broker", "controller"), cluster_id=CLUSTER, version="test", admin_host="node"
    )

    async def on_behalf_of(self, caller: Caller) -> Port:
        """For all the same."""
        await asyncio.sleep(0)
        return self

    async def events(self, after_id: int, wait_seconds: float) -> EventPage:
        await asyncio.sleep(0)
        return EventPage(events=(), missed=False, last_id=after_id)

    async def call(self, *arguments: Any, **named: Any) -> Any:
        raise ConnectionRefusedError("it must not be asked")


def refuse(line: Any) -> None:
    raise AssertionError(line)
