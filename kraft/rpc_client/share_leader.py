"""Sends the requests of one share session, one at a time, over a connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from kraft.common.errors import KraftError
from kraft.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kraft.protocol.messages.share_fetch_request import ShareFetchRequest
from kraft.rpc_client.backoff import Backoff
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import UnsupportedApi
from kraft.rpc_client.errors import DeadlinePassed
from kraft.rpc_client.share_session import FINAL_EPOCH, RENEW_VERSION, FetchResult, Place, Request, ShareSession

MAX_BYTES: Final = 16 * 1024 * 1024
LINGER_SECONDS: Final = 1.0
"""How long acknowledgements wait for the next ShareFetch. Then they are sent alone, so that they do not expire with
their locks while the application works on a record."""


class ShareLeader:
    """A broker, the session with it, and what the consumer wants of it. The consumer sets `wanted`, `wait_ms` and
    `flushes`, and then calls `wake`.

    - `wanted`: the partitions to fetch
    - `wait_ms`: the longest wait of the next ShareFetch; None while no poll asks for one
    - `flushes`: send the queued acknowledgements without waiting for a ShareFetch
    - `is_busy`: a request is in flight; `reserved`: records that it may acquire
    """

    def __init__(
        self,
        cluster: Cluster,
        node_id: int,
        session: ShareSession,
        *,
        records_max: Callable[[], int],
        acquire_mode: int,
        on_fetch: Callable[[ShareLeader, FetchResult], None],
        on_loss: Callable[[ShareLeader, KraftError | TimeoutError], None],
        on_change: Callable[[], None],
    ) -> None:
        """`records_max` returns how many records a ShareFetch may acquire now. `on_fetch` and `on_loss` receive
        results, `on_change` is called after every request."""
        self.node_id = node_id
        self.session = session
        self.wanted: tuple[Place, ...] = ()
        self.wait_ms: int | None = None
        self.flushes = False
        self.is_busy = False
        self.reserved = 0
        self._cluster = cluster
        self._records_max = records_max
        self._acquire_mode = acquire_mode
        self._on_fetch = on_fetch
        self._on_loss = on_loss
        self._on_change = on_change
        self._is_closing = False
        self._wake = trio.Event()
        self._done = trio.Event()
        self._scope = trio.CancelScope(shield=True)
        """The scope of `run`. It is shielded: the last requests are sent also if the application is cancelled."""

    def wake(self) -> None:
        """Let `run` check again whether a request is to be sent."""
        self._wake.set()

    async def run(self) -> None:
        """Send requests until `end` or `abandon`."""
        with self._scope:
            await self._send_requests()
        self._done.set()

    async def end(self) -> None:
        """Send the last request of the session after the one in flight, and wait for its response."""
        self._is_closing = True
        self.wake()
        await self._done.wait()

    def abandon(self) -> None:
        """Stop, and close the connection. Acknowledgements without an answer have failed."""
        self._scope.cancel()
        late = DeadlinePassed(f"broker {self.node_id} did not answer before the consumer was closed")
        self.session.lose(late)
        self._cluster.close_lane(self)

    async def _send_requests(self) -> None:
        clock = self._cluster.world.clock
        chance = self._cluster.world.random.stream("share session")
        backoff = Backoff(chance)
        while True:
            request = self._next_request()
            if request is None:
                if self._is_closing:
                    return
                await self._wait_for_wake()
                continue
            pause = 0.0
            self.is_busy = True
            try:
                await self._exchange(request)
                backoff = Backoff(chance)
            except (KraftError, TimeoutError) as problem:
                # The broker releases the records of a session when its connection closes.
                self.session.lose(problem)
                self._cluster.close_lane(self)
                self._on_loss(self, problem)
                pause = backoff.next()
            self.is_busy, self.reserved = False, 0
            self._on_change()
            if self._is_closing and request.share_session_epoch == FINAL_EPOCH:
                return
            if pause and not self._is_closing:
                await clock.sleep(pause)

    async def _wait_for_wake(self) -> None:
        self._wake = trio.Event()
        if not self.session.has_queued:
            await self._wake.wait()
            return
        with self._cluster.world.clock.move_on_after(LINGER_SECONDS) as linger_scope:
            await self._wake.wait()
        self.flushes = self.flushes or linger_scope.cancelled_caught

    def _next_request(self) -> Request | None:
        now = self._cluster.world.clock.now()
        if self._is_closing:
            return self.session.last_request(now)
        request = self.session.next_request(
            self.wanted,
            now,
            records_max=0 if self.wait_ms is None else self._records_max(),
            wait_ms=self.wait_ms or 0,
            bytes_max=MAX_BYTES,
            acquire_mode=self._acquire_mode,
            flushes=self.flushes,
        )
        self.flushes = False
        if isinstance(request, ShareFetchRequest):
            self.reserved, self.wait_ms = request.max_records, None
        return request

    async def _exchange(self, request: Request) -> None:
        """Send one request and apply its response. Raises ApiError, UnsupportedApi, and as `Cluster.call`."""
        cluster = self._cluster
        if request.is_renew_ack and await cluster.version_of(request.API_KEY, node_id=self.node_id) < RENEW_VERSION:
            self.session.refuse_renewals(
                UnsupportedApi("renewals of locks need brokers of kraft, or of Apache Kafka 4.2 or newer")
            )
            return
        wait_ms = request.max_wait_ms if isinstance(request, ShareFetchRequest) else 0
        seconds = cluster.request_seconds + wait_ms / 1000
        call = await cluster.begin(request, node_id=self.node_id, seconds=seconds, lane=self)
        response = await call.wait()
        now = cluster.world.clock.now()
        if isinstance(request, ShareAcknowledgeRequest):
            self.session.on_acknowledge(response, now, ends=request.share_session_epoch == FINAL_EPOCH)
        else:
            self._on_fetch(self, self.session.on_fetch(response, now))
