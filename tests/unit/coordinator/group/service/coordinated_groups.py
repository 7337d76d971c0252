"""A group coordinator over a log in memory."""

from __future__ import annotations

from tests.unit.coordinator.group_host import (
    TestCaller,
    join_request,
    sync_request,
)
from tests.unit.coordinator.service import Service


async def stable_member(service: Service, group: str = "g", instance_id: str | None = None) -> str:
    """A group of one, with its assignment."""
    version = 3 if instance_id is None else 5
    joined = await service.coordinator.join_group(join_request(group, instance_id=instance_id), TestCaller(version))
    assert joined.error_code == 0
    request = sync_request(group, joined.member_id, joined.generation_id, {joined.member_id: b"all"}, instance_id)
    assert (await service.coordinator.sync_group(request, TestCaller(4))).assignment == b"all"
    return str(joined.member_id)
