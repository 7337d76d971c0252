"""Registration of brokers and controllers (KIP-631, KIP-866, KIP-919, KIP-1073 epochs of clean shutdowns).

A broker's new epoch is the offset at which its registration will be written. It is greater than any epoch before, and
needs no counter.

A new incarnation starts fenced. The changes that remove the previous incarnation from every ISR are written before its
record. So if the controller dies in between, the broker only has to register again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraft.common.errors import ApiError
from kraft.common.ids import uuid_to_text
from kraft.controller.controller_result import ControllerResult
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.leader_and_isr import broker_restarted, broker_unregistered
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.metadata.image.features_image import KRAFT_VERSION, METADATA_VERSION
from kraft.metadata.image.partition_registration import directory_is_reserved
from kraft.metadata.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kraft.metadata.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from kraft.metadata.records.unregister_controller_record import UnregisterControllerRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from kraft.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from kraft.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from kraft.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from kraft.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from kraft.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from kraft.world.steps import Steps

SECURITY_PROTOCOLS = range(4)
"""Ids in requests: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."""


def check_broker_epoch(view: ControllerView, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    """Return the registration that a broker's request names. Raises ApiError(STALE_BROKER_EPOCH)."""
    broker = view.broker(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        )
    return broker


def is_other_incarnation(view: ControllerView, request: BrokerRegistrationRequest) -> bool:
    """Whether the request would replace another registered incarnation."""
    known = view.broker(request.broker_id)
    return known is not None and known.incarnation_id != request.incarnation_id


def stands_in_place(known: BrokerRegistration, request: BrokerRegistrationRequest) -> bool:
    """Whether the new incarnation has exactly the directories and ports of the previous one. A living process locks its
    directories and binds its ports, so the previous process has then ended."""
    endpoints = {(listener.name, listener.host, listener.port) for listener in request.listeners}
    return (
        bool(known.directories)
        and set(known.directories) == set(request.log_dirs)
        and bool(known.endpoints)
        and all((endpoint.name, endpoint.host, endpoint.port) in endpoints for endpoint in known.endpoints)
    )


def register_broker(
    view: ControllerView,
    request: BrokerRegistrationRequest,
    *,
    api_version: int,
    next_offset: int,
    kraft_version: int,
    session_is_valid: Callable[[int, int], bool],
) -> Steps[ControllerResult[BrokerRegistrationResponse]]:
    """Return the records and the response for BrokerRegistration.

    `session_is_valid(broker, epoch)` returns whether that incarnation may still be alive. Yields after each partition.
    """
    settings = view.settings
    if request.cluster_id != settings.cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {settings.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    known = view.broker(request.broker_id)
    same_incarnation = known is not None and known.incarnation_id == request.incarnation_id
    if known is not None and not same_incarnation and session_is_valid(known.id, known.epoch):
        problem = (
            "Another broker is registered with that broker id. If the broker was recently restarted this "
            "should self-resolve "
            "once the heartbeat manager expires the broker's session."
        )
        raise ApiError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, problem)
    if request.is_migrating_zk_broker:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    if view.capabilities.assigns_directories:
        _check_directories(view, request)
    _check_features(view, request, kraft_version)
    _check_listeners(request)
    records: list[Any] = []
    if not same_incarnation:
        clean = api_version >= 3 and known is not None and known.epoch == request.previous_broker_epoch
        records += yield from broker_restarted(view, request.broker_id, clean)
    record = _registration(view, request, known if same_incarnation else None, next_offset)
    records.append(record)
    return ControllerResult(records, BrokerRegistrationResponse(broker_epoch=record.broker_epoch))


def _registration(
    view: ControllerView, request: BrokerRegistrationRequest, known: BrokerRegistration | None, next_offset: int
) -> RegisterBrokerRecord:
    """Build the registration record. The same incarnation, `known`, keeps its epoch and state."""
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=next_offset if known is None else known.epoch,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=[
            BrokerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
        rack=request.rack,
        fenced=True if known is None else known.fenced,
        in_controlled_shutdown=False if known is None else known.in_controlled_shutdown,
        log_dirs=list(request.log_dirs) if view.capabilities.assigns_directories else [],
        cordoned_log_dirs=None
        if known is None or known.cordoned_directories is None
        else list(known.cordoned_directories),
    )


def _check_directories(view: ControllerView, request: BrokerRegistrationRequest) -> None:
    def refuse(problem: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REGISTRATION, problem)

    if not request.log_dirs:
        raise refuse("No directories specified in request")
    if any(directory_is_reserved(directory) for directory in request.log_dirs):
        raise refuse("Reserved directory ID in request")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise refuse("Duplicate directory ID in request")
    owners = {
        directory: broker.id for broker in view.image.cluster.brokers.values() for directory in broker.directories
    }
    for directory in request.log_dirs:
        owner = owners.get(directory, request.broker_id)
        if owner != request.broker_id:
            raise refuse(f"Broker {owner} is already registered with directory {uuid_to_text(directory)}")


def _check_features(view: ControllerView, request: BrokerRegistrationRequest, kraft_version: int) -> None:
    """Check that every finalized level lies within the broker's range. A feature that the broker does not name counts
    as not supported."""
    finalized = {**dict(view.image.features.levels.items()), KRAFT_VERSION: kraft_version}
    ranges = {
        feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in request.features
    }
    if METADATA_VERSION not in ranges:
        _check_ranges(ranges, finalized)
        raise ApiError(ErrorCode.INVALID_REGISTRATION, f"Request features do not contain '{METADATA_VERSION}'")
    _check_ranges(ranges, finalized)
    _check_ranges({name: (0, 0) for name, level in finalized.items() if name not in ranges and level != 0}, finalized)


def _check_listeners(request: BrokerRegistrationRequest) -> None:
    for listener in request.listeners:
        if listener.security_protocol not in SECURITY_PROTOCOLS:
            raise ApiError(
                ErrorCode.INVALID_REGISTRATION,
                f"Listener {listener.name} has the unknown security protocol {listener.security_protocol}",
            )


def _check_ranges(ranges: dict[str, tuple[int, int]], finalized: dict[str, int]) -> None:
    for name, (low, high) in ranges.items():
        level = finalized.get(name, 0)
        if not low <= level <= high:
            problem = (
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {low} and {high}, inclusive."
            )
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, problem)


def register_controller(
    view: ControllerView, request: ControllerRegistrationRequest
) -> ControllerResult[ControllerRegistrationResponse]:
    """Return the record and the response for ControllerRegistration. Raises ApiError UNSUPPORTED_VERSION below
    3.7-IV0."""
    if not view.capabilities.registers_controllers:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=[
            ControllerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
    )
    return ControllerResult([record], ControllerRegistrationResponse(), atomic=True)


def unregister_broker(view: ControllerView, broker_id: int) -> Steps[ControllerResult[UnregisterBrokerResponse]]:
    """Return the records and the response for UnregisterBroker. Yields after each partition. Raises
    ApiError(BROKER_ID_NOT_REGISTERED)."""
    broker = view.broker(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    records = yield from broker_unregistered(view, broker_id, broker.epoch)
    return ControllerResult(records, UnregisterBrokerResponse())


def unregister_controller(view: ControllerView, controller_id: int) -> ControllerResult[UnregisterControllerResponse]:
    """Return the record and the response for UnregisterController (KIP-1312). Raises ApiError INVALID_REQUEST for the
    active controller itself, UNSUPPORTED_VERSION at a lower metadata.version, CONTROLLER_ID_NOT_REGISTERED."""
    if controller_id == view.settings.node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active.")
    if not view.capabilities.unregisters_controllers:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        )
    if controller_id not in view.image.cluster.controllers:
        raise ApiError(
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"Controller ID {controller_id} is not currently registered."
        )
    record = UnregisterControllerRecord(controller_id=controller_id)
    return ControllerResult([record], UnregisterControllerResponse(), atomic=True)
