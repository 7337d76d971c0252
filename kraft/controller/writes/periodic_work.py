"""Scheduled work of the active controller, each kind at its own interval.

Every node with the controller role runs these loops. They do nothing while another node is active. Work that fails
because the role was lost, or because the metadata disk is full, is retried in its next period. Work that fails with an
unexpected error has written nothing. It is set aside until its next period, and the other loops continue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from kraft.common.errors import ApiError
from kraft.common.quarantine import Quarantine
from kraft.controller.controller_view import ControllerSettings
from kraft.controller.controls.delegation_token_control import sweep_expired
from kraft.controller.replication_control import broker_states as broker_duties
from kraft.controller.replication_control import elect_leaders
from kraft.controller.unclean.leaderless_watch import LOOK_SECONDS
from kraft.controller.writes.controller_term import ControllerTerm
from kraft.controller.writes.controller_writes import ControllerWrites, Operation
from kraft.protocol.error_codes import ErrorCode
from kraft.world.ports import Clock

SESSION_CHECKS_PER_TIMEOUT: Final = 8
PASSING: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.KAFKA_STORAGE_ERROR)
"""Expected errors: another node is the active controller, or the metadata disk is full."""

WORK: Final = "controller's periodic work"

Work = Callable[[], Awaitable[object]]


class PeriodicWork:
    """The loops of one controller. `is_active` returns whether this node is the active controller. `term` returns the
    term of its epoch."""

    def __init__(
        self,
        settings: ControllerSettings,
        writes: ControllerWrites,
        is_active: Callable[[], bool],
        term: Callable[[], ControllerTerm],
        clock: Clock,
        set_aside: Quarantine,
    ) -> None:
        self._set_aside = set_aside
        self._settings = settings
        self._writes = writes
        self._is_active = is_active
        self._term = term
        self._clock = clock
        self._duties = broker_duties.BrokerStates()

    def start(self, nursery: trio.Nursery) -> None:
        """Start the loops, which never end."""
        settings = self._settings
        schedule: tuple[tuple[str, float, Work], ...] = (
            (
                "fence silent brokers",
                settings.broker_session_timeout_ms / 1000 / SESSION_CHECKS_PER_TIMEOUT,
                lambda: self._term().watch.fence_silent_brokers(),
            ),
            (
                "write a record when idle",
                settings.metadata_max_idle_interval_ms / 1000,
                lambda: self._writes.write_no_op(settings.metadata_max_idle_interval_ms / 1000),
            ),
            (
                "balance leaders",
                settings.leader_imbalance_check_interval_ms / 1000,
                lambda: self._pass_until_done(elect_leaders.balance_leaders),
            ),
            (
                "remove expired delegation tokens",
                settings.delegation_token_expiry_check_interval_ms / 1000,
                lambda: self._pass_until_done(lambda view: sweep_expired(view, self._clock.wall_ms())),
            ),
            ("take brokers out of duty", broker_duties.STEP_SECONDS, self._take_out_of_duty),
            ("look for leaders", LOOK_SECONDS, lambda: self._term().leaderless.look()),
            (
                "elect unclean leaders",
                settings.unclean_leader_election_interval_ms / 1000,
                lambda: self._pass_until_done(elect_leaders.elect_unclean_leaders),
            ),
        )
        for name, interval, work in schedule:
            if interval > 0:
                nursery.start_soon(self._repeat, name, interval, work)

    async def _repeat(self, name: str, interval: float, work: Work) -> None:
        while True:
            await self._clock.sleep(interval)
            if not self._is_active():
                self._set_aside.keep(WORK, ())
                continue
            with self._set_aside.guard(WORK, name):
                await self._do(work)

    async def _do(self, work: Work) -> None:
        try:
            await work()
        except ApiError as error:
            if error.code not in PASSING:
                raise

    async def _take_out_of_duty(self) -> None:
        if self._duties.is_due(self._writes.view()):
            await self._pass_until_done(self._duties.step)

    async def _pass_until_done(self, operation: Operation[bool]) -> None:
        while await self._writes.write(operation):
            await trio.lowlevel.checkpoint()
