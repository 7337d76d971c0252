"""BrokerHeartbeat: the states of a broker, as the controller decides them.

- FENCED to UNFENCED: the broker has replayed its registration and wants to run.
- UNFENCED to CONTROLLED_SHUTDOWN: it wants to stop, and leads partitions.
- UNFENCED to SHUTDOWN_NOW: it wants to stop, and leads nothing or wants to be fenced.
- CONTROLLED_SHUTDOWN to SHUTDOWN_NOW: it leads nothing, and every active broker's metadata has reached the offset of
  its shutdown.
- FENCED to SHUTDOWN_NOW: it wants to stop.
- UNFENCED to FENCED: it wants to be fenced.
- Any state to FENCED: its session has timed out.

Lost directories in a heartbeat are handled first. The broker's next state is decided with these directories already
offline. (Apache Kafka decides both from the same image, so an unfenced broker may become leader on a disk that it has
just reported lost.)

A broker that an operator wants fenced (`kraft.common.broker_state`) is fenced at its next heartbeat, and stays fenced.
A broker in controlled shutdown waits for the metadata of the other brokers, because a client or follower could
otherwise still send requests to it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kraft.common.broker_state import FENCED
from kraft.controller.brokers.cluster_control import check_broker_epoch
from kraft.controller.brokers.heartbeat_manager import BrokerHeartbeatManager
from kraft.controller.controller_result import ControllerResult
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control import leader_and_isr
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.world.steps import Steps


class BrokerControlState:
    FENCED: Final = "FENCED"
    UNFENCED: Final = "UNFENCED"
    CONTROLLED_SHUTDOWN: Final = "CONTROLLED_SHUTDOWN"
    SHUTDOWN_NOW: Final = "SHUTDOWN_NOW"


class HeartbeatReply(NamedTuple):
    response: BrokerHeartbeatResponse
    following: str
    """The broker's state once the records are in the log."""


def process_heartbeat(
    view: ControllerView, request: BrokerHeartbeatRequest, heartbeats: BrokerHeartbeatManager, registration_offset: int
) -> Steps[ControllerResult[HeartbeatReply]]:
    """Return the records and the response for BrokerHeartbeat.

    `registration_offset` is the log offset of the broker's registration. Yields after each partition. Raises
    ApiError(STALE_BROKER_EPOCH).
    """
    check_broker_epoch(view, request.broker_id, request.broker_epoch)
    records: list[Any] = []
    if view.capabilities.assigns_directories:
        records += yield from leader_and_isr.directories_offline(
            view, request.broker_id, request.broker_epoch, request.offline_log_dirs
        )
    if records:
        view = yield from view.after(records)
    current = current_state(view, heartbeats, request.broker_id)
    following = yield from next_state(view, heartbeats, request, current, registration_offset)
    if following != current:
        records += yield from _transition(view, request, following)
    fenced = following in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)
    if view.capabilities.serves_cordons:
        records += leader_and_isr.directories_cordoned(
            view, request.broker_id, request.broker_epoch, request.cordoned_log_dirs
        )
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= registration_offset,
        is_fenced=fenced,
        should_shut_down=following == BrokerControlState.SHUTDOWN_NOW,
    )
    return ControllerResult(records, HeartbeatReply(response, following))


def note_heartbeat(
    heartbeats: BrokerHeartbeatManager, request: BrokerHeartbeatRequest, reply: HeartbeatReply, offset: int
) -> None:
    """Update the broker's state after the records of a heartbeat were appended, the last one at `offset`.

    It is not called when the append failed, for example on a full disk. Then a broker that is still fenced stays held.
    """
    heartbeats.touch(
        request.broker_id, fenced=reply.response.is_fenced, metadata_offset=request.current_metadata_offset
    )
    if reply.following == BrokerControlState.SHUTDOWN_NOW:
        heartbeats.left(request.broker_id, request.broker_epoch)
    elif reply.following == BrokerControlState.CONTROLLED_SHUTDOWN:
        heartbeats.enter_controlled_shutdown(request.broker_id, offset)


def current_state(view: ControllerView, heartbeats: BrokerHeartbeatManager, broker_id: int) -> str:
    if heartbeats.controlled_shutdown_offset(broker_id) is not None:
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.FENCED if view.image.cluster.brokers[broker_id].fenced else BrokerControlState.UNFENCED


def next_state(
    view: ControllerView,
    heartbeats: BrokerHeartbeatManager,
    request: BrokerHeartbeatRequest,
    current: str,
    registration_offset: int,
) -> Steps[str]:
    """Return the broker's next state. Yields after each partition."""
    broker_id = request.broker_id
    want_fence = request.want_fence or view.image.configs.desired_state(broker_id) == FENCED
    if current == BrokerControlState.FENCED:
        if request.want_shut_down:
            return BrokerControlState.SHUTDOWN_NOW
        caught_up = request.current_metadata_offset >= registration_offset
        may_run = caught_up and not _has_no_disk(view, request)
        return BrokerControlState.UNFENCED if not want_fence and may_run else BrokerControlState.FENCED
    if current == BrokerControlState.UNFENCED:
        if want_fence:
            return BrokerControlState.SHUTDOWN_NOW if request.want_shut_down else BrokerControlState.FENCED
        if not request.want_shut_down:
            return BrokerControlState.UNFENCED
        leads = yield from leader_and_isr.has_leaderships(view, broker_id)
        return BrokerControlState.CONTROLLED_SHUTDOWN if leads else BrokerControlState.SHUTDOWN_NOW
    decided = heartbeats.controlled_shutdown_offset(broker_id)
    assert decided is not None
    if decided > heartbeats.lowest_active_offset(_active_brokers(view)):
        return BrokerControlState.CONTROLLED_SHUTDOWN
    leads = yield from leader_and_isr.has_leaderships(view, broker_id)
    return BrokerControlState.CONTROLLED_SHUTDOWN if leads else BrokerControlState.SHUTDOWN_NOW


def _has_no_disk(view: ControllerView, request: BrokerHeartbeatRequest) -> bool:
    """Whether all directories of the broker are lost. Lost directories stay in its registration, because an empty list
    means that the broker does not report directories."""
    directories = view.image.cluster.brokers[request.broker_id].directories
    return bool(directories) and set(directories) <= set(request.offline_log_dirs)


def _active_brokers(view: ControllerView) -> list[int]:
    return [broker.id for broker in view.image.cluster.brokers.values() if not broker.fenced]


def _transition(view: ControllerView, request: BrokerHeartbeatRequest, following: str) -> leader_and_isr.Records:
    if following == BrokerControlState.UNFENCED:
        returned = view.holding(view.held_brokers - {request.broker_id})
        return leader_and_isr.broker_unfenced(returned, request.broker_id, request.broker_epoch)
    if following == BrokerControlState.CONTROLLED_SHUTDOWN:
        return leader_and_isr.broker_in_controlled_shutdown(view, request.broker_id, request.broker_epoch)
    return leader_and_isr.broker_fenced(view, request.broker_id)
