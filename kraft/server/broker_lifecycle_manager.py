"""A broker's state at the controller (KIP-631): registered, caught up, unfenced, shutting down.

Starting -> Registered (fenced) -> Unfenced -> PendingControlledShutdown -> ShuttingDown. Heartbeats are sent every
broker.heartbeat.interval.ms, or immediately if something waits for the response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import trio

from kraft.common.backed_off_log import BackedOffLog
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ApiError, KraftError
from kraft.common.features import SUPPORTED_FEATURES, unsupported
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from kraft.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from kraft.server.node_to_controller_channel import NodeToControllerChannel
from kraft.world.ports import World

if TYPE_CHECKING:
    from kraft.common.logging import Logger

FENCED_PAUSES_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
REGISTRATION_RETRY_SECONDS = 0.1


class BrokerState:
    """Kafka's broker states, as its BrokerState metric numbers them."""

    NOT_RUNNING: Final = 0
    STARTING: Final = 1
    RECOVERY: Final = 2
    RUNNING: Final = 3
    PENDING_CONTROLLED_SHUTDOWN: Final = 6
    SHUTTING_DOWN: Final = 7


REFUSALS = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "its principal is neither one of super.users nor has it ClusterAction on the cluster; name it in super.users "
        "on every node"
    )
}
"""By error code that ends the start of a broker: what the operator has to do."""


REGISTRATION_LOST: Final = frozenset((ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED))
"""Responses to a heartbeat without a valid registration. Only a restart registers again."""


class BrokerLifecycleManager:
    """Registers one broker and sends its heartbeats. Only the task `run` communicates with the controller. Other tasks
    read `state` and wait for the events."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        cluster_id: str,
        channel: NodeToControllerChannel,
        metadata_offset: Callable[[], int],
        finalized_features: Callable[[], Mapping[str, int]],
        cordoned_directories: Callable[[], list[bytes] | None],
        log: Logger,
    ) -> None:
        """`cordoned_directories` returns the ids of the cordoned log directories, or None if they are not to be
        reported."""
        self._world = world
        self._config = config
        self._cluster_id = cluster_id
        self._channel = channel
        self._metadata_offset = metadata_offset
        self._finalized_features = finalized_features
        self._cordoned_directories = cordoned_directories
        self._log = log
        self._unreached = BackedOffLog(log, world.clock)
        self._incarnation_id = world.random.uuid("broker-incarnation")
        self._wake = trio.Event()
        self._wants_shutdown = False
        self._refused_with: int = ErrorCode.NONE
        self._amends = False
        self.state = BrokerState.STARTING
        self.epoch = -1
        self.fenced = True
        self._fenced_answers = 0
        self.offline_directories: list[bytes] = []
        self.registered = trio.Event()
        self.unfenced = trio.Event()
        self.may_stop = trio.Event()

    async def run(self, listeners: list[Listener], directories: list[bytes], previous_epoch: int) -> None:
        """Register, then keep the session alive until cancelled. Raises ApiError if the controller rejects this broker
        permanently."""
        request = await self._register(listeners, directories, previous_epoch)
        while True:
            wake = self._wake
            if self._amends:
                await self._amend(request)
            delay = await self._heartbeat()
            with self._world.clock.move_on_after(delay):
                await wake.wait()

    def amend_registration(self) -> None:
        """Register again as the same incarnation: the metadata lacks this broker's log directories, which were not
        known when it registered. The epoch stays."""
        self._amends = True
        self.poke()

    def begin_controlled_shutdown(self) -> None:
        """Request a controlled shutdown. `may_stop` is set when the controller has moved all leaders away from this
        broker."""
        self._wants_shutdown = True
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self.poke()

    @property
    def registration_lost(self) -> str | None:
        """The name of the error with which the controller permanently rejects the heartbeats, else None."""
        return name_of(self._refused_with) if self._refused_with in REGISTRATION_LOST else None

    def poke(self) -> None:
        """Send the next heartbeat now."""
        self._wake.set()
        self._wake = trio.Event()

    def _registration(
        self, listeners: list[Listener], directories: list[bytes], previous_epoch: int
    ) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=listeners,
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            ],
            rack=self._config.rack,
            log_dirs=directories,
            previous_broker_epoch=previous_epoch,
        )

    async def _amend(self, request: BrokerRegistrationRequest) -> None:
        """Send the registration again. A failed attempt is repeated with the next heartbeat, a refused one is not."""
        timeout = self._config.seconds("broker.session.timeout.ms")
        response = await self._attempt(request, self._world.clock.now() + timeout)
        if not isinstance(response, BrokerRegistrationResponse):
            return
        self._amends = False
        if response.error_code:
            self._log.warning("log directories not registered", code=name_of(response.error_code))

    async def _register(
        self, listeners: list[Listener], directories: list[bytes], previous_epoch: int
    ) -> BrokerRegistrationRequest:
        """Register, and return the accepted request. Raises ApiError if the controller rejects this broker."""
        clock, request = self._world.clock, self._registration(listeners, directories, previous_epoch)
        deadline = clock.now() + self._config.seconds("initial.broker.registration.timeout.ms")
        while True:
            # It may be half-open.
            response = await self._attempt(
                request, min(deadline, clock.now() + self._config.seconds("broker.session.timeout.ms"))
            )
            if isinstance(response, BrokerRegistrationResponse) and not response.error_code:
                self.epoch = response.broker_epoch
                self.registered.set()
                self._log.info("broker registered", epoch=self.epoch)
                return request
            code = (
                response.error_code if isinstance(response, BrokerRegistrationResponse) else ErrorCode.REQUEST_TIMED_OUT
            )
            if clock.now() >= deadline or code in (
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                ErrorCode.UNSUPPORTED_VERSION,
                ErrorCode.INVALID_REGISTRATION,
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ):
                raise ApiError(code, f"the controller rejects this broker: {self._reason(code)}")
            await clock.sleep(REGISTRATION_RETRY_SECONDS)

    def _reason(self, code: int) -> str:
        """Why the controller rejects the registration, and what to do."""
        lacking = unsupported(self._finalized_features()) if code == ErrorCode.UNSUPPORTED_VERSION else []
        if not lacking:
            return REFUSALS.get(code, name_of(code))
        return (
            f"{name_of(code)}: this broker does not support the cluster's feature levels: "
            f"{'; '.join(lacking)}. Lower them first "
            "(kafka-features.sh downgrade, or kraft features downgrade), or join another cluster"
        )

    async def _attempt(self, request: Any, deadline: float) -> Any:
        try:
            return await self._channel.send(request, timeout=max(0.1, deadline - self._world.clock.now()))
        except KraftError as problem:
            name, reason = type(request).__name__, str(problem)
            self._unreached.warning("controller not reached", f"{name} {reason}", request=name, reason=reason)
            return None

    async def _heartbeat(self) -> float:
        """Send one heartbeat. Returns the seconds until the next."""
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=False,
            want_shut_down=self._wants_shutdown,
            offline_log_dirs=self.offline_directories,
            cordoned_log_dirs=self._cordoned_directories(),
        )
        interval = self._config.seconds("broker.heartbeat.interval.ms")
        response: BrokerHeartbeatResponse | None = await self._attempt(
            request, self._world.clock.now() + self._config.seconds("broker.session.timeout.ms")
        )
        if response is None:
            return REGISTRATION_RETRY_SECONDS
        if response.error_code:
            if response.error_code != self._refused_with:  # One line for a series.
                remedy = (
                    "the broker was unregistered, or another process registered with its id: restart it"
                    if response.error_code in REGISTRATION_LOST
                    else None
                )
                self._log.warning("heartbeat refused", code=name_of(response.error_code), remedy=remedy)
            self._refused_with = response.error_code
            return REGISTRATION_RETRY_SECONDS if self.registration_lost is None else interval
        self._refused_with = ErrorCode.NONE
        self._take(response)
        # A fenced broker usually serves again within seconds, so it asks often. But an operator may keep it fenced for
        # hours, so the pauses grow. A change of the metadata ends a pause.
        if self.fenced:
            self._fenced_answers += 1
            return min(interval, FENCED_PAUSES_SECONDS[min(self._fenced_answers, len(FENCED_PAUSES_SECONDS)) - 1])
        self._fenced_answers = 0
        return min(interval, 0.05) if self._wants_shutdown else interval

    def _take(self, response: BrokerHeartbeatResponse) -> None:
        if response.should_shut_down:
            self.state = BrokerState.SHUTTING_DOWN
            self.may_stop.set()
            return
        if self.fenced and not response.is_fenced:
            self._log.info("broker unfenced", epoch=self.epoch)
            self.fenced = False
            if not self._wants_shutdown:
                self.state = BrokerState.RUNNING
            self.unfenced.set()
        elif response.is_fenced and not self.fenced:
            self._log.warning("broker fenced by the controller", epoch=self.epoch)
            self.fenced = True
