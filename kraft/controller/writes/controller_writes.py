"""All writes of a controller: decide, append, and return the response once it is committed.

One lock serializes the decisions, so each sees all earlier ones, committed or not. A decision without records still
waits for the commit of everything written before it, because it may depend on that. The first write of an epoch are its
activation records, and decisions wait for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from kraft.common.errors import ApiError
from kraft.controller.brokers.registration_offsets import RegistrationOffsets
from kraft.controller.controller_result import ControllerResult, Decision
from kraft.controller.controller_view import ControllerSettings, ControllerView
from kraft.controller.controls.config_schema import ConfigSchema
from kraft.controller.unclean.loss_records import with_reports
from kraft.controller.unclean.reports import log_unclean_elections
from kraft.controller.writes.controller_term import ControllerTerm
from kraft.controller.writes.pending_log import PendingLog
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.world.ports import Clock
from kraft.world.turns import TURN_ITEMS, in_turns

if TYPE_CHECKING:
    from kraft.common.logging import Logger

T = TypeVar("T")
Operation = Callable[[ControllerView], Decision[T]]
Preparation = Callable[[ControllerResult[T]], Awaitable[ControllerResult[T]]]

PARTITIONS_A_TURN: Final = 500
"""Partitions decided between two yields. A change of leader takes about eight microseconds."""


class ControllerWrites:
    """The writes of one controller. `term` returns the term of the current epoch."""

    def __init__(
        self,
        settings: ControllerSettings,
        schema: ConfigSchema,
        pending: PendingLog,
        term: Callable[[], ControllerTerm],
        clock: Clock,
        logger: Logger | None,
    ) -> None:
        self._settings = settings
        self._schema = schema
        self._pending = pending
        self._term = term
        self._clock = clock
        self._logger = logger
        self._lock = trio.Lock()
        self._last_write = clock.now()
        self.registrations = RegistrationOffsets()

    def view(self) -> ControllerView:
        """Return the view for the next decision."""
        return ControllerView(self._pending.image, self._settings, self._schema, self._term().heartbeats.held)

    async def until_active(self) -> int:
        """Wait for the activation records, and return the claimed epoch. Raises ApiError NOT_CONTROLLER."""
        epoch = self._pending.require_active()
        await self._term().activated.wait()
        return epoch

    async def write(
        self,
        operation: Operation[T],
        appended: Callable[[T, int], None] | None = None,
        beforehand: Preparation[T] | None = None,
    ) -> T:
        """Decide, append, and return the response once it is committed. Raises ApiError.

        `appended` is called with the response and the offset of the last record as soon as they are appended, committed
        or not. `beforehand` runs before the append and returns the result to append. No other decision is made
        meanwhile.
        """
        epoch = await self.until_active()
        async with self._lock:
            self._require_epoch(epoch)
            result = await self._decide(operation)
            self._require_epoch(epoch)
            if beforehand is not None:
                result = await beforehand(result)
                self._require_epoch(epoch)
            offset, changes = await self._append(result)
            image = self._pending.image
            if appended is not None:
                appended(result.response, self._pending.last_appended)
        if self._logger is not None:
            await in_turns(log_unclean_elections(self._logger, changes, image), TURN_ITEMS)
            self._require_epoch(epoch)
        await self._pending.committed(offset)
        return result.response

    async def write_first(self, epoch: int, records: Callable[[ControllerView], list[Any]]) -> bool:
        """Write the first records of `epoch`. Returns False while the disk is too full. Raises
        ApiError(NOT_CONTROLLER)."""
        async with self._lock:
            self._require_epoch(epoch)
            try:
                await self._append(ControllerResult(records(self.view()), None))
            except ApiError as error:
                if error.code != ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                return False
        return True

    async def write_no_op(self, idle_seconds: float) -> None:
        """Write a no-op record if nothing was written for `idle_seconds`, as Kafka does. Raises ApiError."""
        if self._clock.now() - self._last_write >= idle_seconds and not self._lock.locked():
            async with self._lock:
                await self._append(ControllerResult([NoOpRecord()], None))

    async def _decide(self, operation: Operation[T]) -> ControllerResult[T]:
        """Run the decision on one view while the lock is held. Changes that happen while it yields count as later."""
        view = self.view()
        decided = operation(view)
        result = decided if isinstance(decided, ControllerResult) else await in_turns(decided, PARTITIONS_A_TURN)
        return await in_turns(with_reports(view, result, self._clock.wall_ms()), PARTITIONS_A_TURN)

    def _require_epoch(self, epoch: int) -> None:
        if self._pending.epoch != epoch:
            raise self._pending.not_controller()

    async def _append(self, result: ControllerResult[Any]) -> tuple[int, MetadataChanges]:
        offset, changes = await self._pending.append(result)
        if result.records:
            self._last_write = self._clock.now()
            self.registrations.appended(changes, self._pending.image, offset)
        return offset, changes
