"""Producer ids from blocks that the controller allocates. The next block is fetched before the current one is used up
(KIP-730)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import trio

from kraft.common.errors import ApiError, KraftError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kraft.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

PREFETCH_USED_SHARE = 0.9


class Channel(Protocol):
    async def send(self, request: Any, *, timeout: float | None = None) -> Any: ...


class ProducerIdManager:
    """Returns producer ids for new producers. Owned by the broker's loop. An id is returned at most once, since the
    controller commits its block before it responds."""

    def __init__(
        self, broker_id: int, broker_epoch: Callable[[], int], channel: Channel, nursery: trio.Nursery
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._nursery = nursery
        self._next = 0
        self._end = 0
        self._following: tuple[int, int] | None = None
        self._fetching: trio.Event | None = None

    async def next(self) -> int:
        """See `kraft.handlers.services.ProducerIds`."""
        while True:
            if self._next < self._end:
                taken = self._next
                self._next += 1
                self._prefetch()
                return taken
            if self._following is not None:
                self._next, self._end = self._following
                self._following = None
                continue
            await self._fetch_now()
            if self._following is None and self._next >= self._end:
                raise ApiError(
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no block of producer ids could be allocated yet"
                )

    def _prefetch(self) -> None:
        size = 1000
        if (
            self._following is None
            and self._fetching is None
            and self._end - self._next <= size * (1 - PREFETCH_USED_SHARE)
        ):
            self._nursery.start_soon(self._fetch_now)

    async def _fetch_now(self) -> None:
        """Fetch the next block. Concurrent calls wait for the same response."""
        if self._fetching is not None:
            await self._fetching.wait()
            return
        self._fetching = trio.Event()
        try:
            request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
            response: AllocateProducerIdsResponse = await self._channel.send(request)
            if not response.error_code:
                self._following = (response.producer_id_start, response.producer_id_start + response.producer_id_len)
        except KraftError:
            return  # The caller tells its client to come again.
        finally:
            self._fetching.set()
            self._fetching = None
