"""The registration of a controller with the active controller (KIP-919)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final, Protocol

import trio

from kraft.common.backed_off_log import BackedOffLog
from kraft.common.config.endpoints import Endpoint
from kraft.common.errors import KraftError
from kraft.common.features import SUPPORTED_FEATURES
from kraft.common.logging import Logger
from kraft.common.metadata_versions import MetadataVersion
from kraft.metadata.image.cluster_image import ControllerRegistration
from kraft.protocol.messages.controller_registration_request import ControllerRegistrationRequest, Feature, Listener
from kraft.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from kraft.server.broker_server import SECURITY_PROTOCOL_IDS
from kraft.world.ports import World

RETRY_SECONDS: Final = 1.0


class RegistrationChannel(Protocol):
    """Sends requests to the active controller."""

    async def send(self, request: ControllerRegistrationRequest) -> ControllerRegistrationResponse:
        """Send the request. Raises KraftError."""


class ControllerRegistrar:
    """Registers one controller when it starts, and again when it is unregistered while it runs (KIP-1312)."""

    def __init__(self, node_id: int, world: World, channel: RegistrationChannel, log: Logger) -> None:
        self._node_id = node_id
        self._incarnation = world.random.uuid("controller-incarnation")
        self._clock = world.clock
        self._channel = channel
        self._log = log
        self._unregistered = trio.Event()
        self._registers = trio.Event()

    def take_level(self, metadata_version: MetadataVersion) -> None:
        """Act on the finalized metadata.version: controllers register from 3.7-IV0 on."""
        if metadata_version.registers_controllers:
            self._registers.set()

    def take_changes(self, changes: Mapping[int, ControllerRegistration | None], controllers: Container[int]) -> None:
        """Act on changed controllers, each with its registration before. `controllers` are registered now."""
        if self._node_id not in changes or self._node_id in controllers:
            return
        before = changes[self._node_id]
        # Without a registration before, one came and went within this update.
        if before is None or before.incarnation_id == self._incarnation:
            self._unregistered.set()

    async def run(self, endpoints: Sequence[Endpoint]) -> None:
        """Keep these listeners and the supported features registered until cancelled."""
        while True:
            await self._registers.wait()
            self._unregistered = trio.Event()
            await self._register(endpoints)
            await self._unregistered.wait()
            self._log.warning(
                "controller unregistered",
                reason="this controller was unregistered while it runs, and registers again: stop it first",
            )

    async def _register(self, endpoints: Sequence[Endpoint]) -> None:
        """Register. Retries until the active controller accepts."""
        request = ControllerRegistrationRequest(
            controller_id=self._node_id,
            incarnation_id=self._incarnation,
            listeners=[
                Listener(
                    name=endpoint.name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
                )
                for endpoint in endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            ],
        )
        refusals = BackedOffLog(self._log, self._clock)
        while True:
            try:
                response = await self._channel.send(request)
                if not response.error_code:
                    return
                code, reason = response.error_code, response.error_message
                refusals.warning("controller registration refused", f"{code} {reason}", code=code, reason=reason)
            except KraftError as problem:
                refusals.warning("controller registration failed", str(problem), reason=str(problem))
            await self._clock.sleep(RETRY_SECONDS)
