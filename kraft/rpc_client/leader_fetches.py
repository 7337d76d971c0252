"""One Fetch in flight at each leader, which continues between polls. So a slow leader's response is used later, and
does not delay the fast leaders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import trio

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.pending_call import PendingCall

GRACE_SECONDS = 1.0
"""How long fetched records wait for other leaders whose connection is being opened."""
GRACE_EVERY_SECONDS = 10.0


class Question(NamedTuple):
    """A Fetch for one leader: the request, topic names by id, ids by name, and the partitions' positions."""

    request: FetchRequest
    names: Mapping[bytes, str]
    ids: Mapping[str, bytes]
    positions: Mapping[TopicPartition, int]


Answer = FetchResponse | KraftError | TimeoutError
Ask = Callable[[Sequence[TopicPartition]], Awaitable[Question]]
Take = Callable[[Sequence[TopicPartition], Question | None, Answer], bool]


class LeaderFetches:
    """The Fetches of one consumer. At most one is in flight at each leader, on a connection of its own, so that other
    requests to the same cluster do not wait behind it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._under_way: dict[int, tuple[Question, PendingCall]] = {}
        self._grace_again: dict[int, float] = {}

    def abandon(self, but: Mapping[int, object] | None = None) -> None:
        """Abandon the Fetches in flight, except at the leaders in `but`."""
        for leader in [each for each in self._under_way if each not in (but or {})]:
            self._under_way.pop(leader)[1].abandon()

    def close(self) -> None:
        """Abandon all Fetches and close the connections. Later Fetches open new ones."""
        self.abandon()
        self._cluster.close_lane(self)

    async def gather(self, by_leader: Mapping[int, Sequence[TopicPartition]], ask: Ask, take: Take) -> None:
        """Send a Fetch to each leader without one in flight, and pass each response or error to `take`. Ends when
        `take` returns True, or all leaders have answered."""
        self.abandon(but=by_leader)
        waiting = {leader: trio.CancelScope() for leader in by_leader}
        enough = trio.Event()

        async def one(leader: int, partitions: Sequence[TopicPartition]) -> None:
            with waiting[leader]:
                question: Question | None = None
                answer: Answer
                try:
                    if leader not in self._under_way:
                        question = await ask(partitions)
                        seconds = self._cluster.request_seconds + question.request.max_wait_ms / 1000
                        self._under_way[leader] = (
                            question,
                            await self._cluster.begin(question.request, node_id=leader, seconds=seconds, lane=self),
                        )
                    if enough.is_set():
                        return
                    question, call = self._under_way[leader]
                    answer = await call.wait()
                except (KraftError, TimeoutError) as problem:
                    answer = problem
                self._under_way.pop(leader, None)
                del waiting[leader]
                if take(partitions, question, answer):
                    enough.set()

        async with trio.open_nursery() as gathering_nursery:
            gathering_nursery.start_soon(self._end, enough, waiting)
            async with trio.open_nursery() as leaders_nursery:
                for leader, partitions in by_leader.items():
                    leaders_nursery.start_soon(one, leader, partitions)
            gathering_nursery.cancel_scope.cancel()

    async def _end(self, enough: trio.Event, waiting: Mapping[int, trio.CancelScope]) -> None:
        """Stop waiting once `enough` is set. Now and then, leaders still connecting get time to finish."""
        await enough.wait()
        now = self._cluster.world.clock.now()
        for leader, scope in waiting.items():
            if leader in self._under_way or now < self._grace_again.get(leader, now):
                scope.cancel()
            else:
                self._grace_again[leader] = now + GRACE_EVERY_SECONDS
        await self._cluster.world.clock.sleep(GRACE_SECONDS)
        for scope in waiting.values():
            scope.cancel()
