"""Finding a group's coordinator. The request also creates the topic of committed offsets."""

from __future__ import annotations

from jepsen.simulation.clients.session import TRY_AGAIN, Refused, Session, Unanswered
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest

GROUP = 0


async def find_coordinator(session: Session, group: str) -> bool:
    """Point the session at the group's coordinator. Returns False if it is not known yet."""
    try:
        response = await session.call(FindCoordinatorRequest(key=group, key_type=GROUP), 0, 3)
    except Unanswered:
        return False
    if response.error_code not in (ErrorCode.NONE, ErrorCode.INVALID_REPLICATION_FACTOR, *TRY_AGAIN):
        raise Refused("FindCoordinator", response.error_code)
    if response.error_code != ErrorCode.NONE:
        return False
    await session.aim_at_coordinator(response.host)
    return True
