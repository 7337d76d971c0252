"""The active controller's work for partitions without a leader: it runs recoveries, and holds elections immediately
when a configuration change allows them.

It checks the image a few times a second. It does nothing unless there is a leaderless partition and something has
changed, or a recovery is in progress.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

import trio

from kraft.controller.brokers.broker_watch import BrokerWatch, Write
from kraft.controller.controller_result import ControllerResult
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.leader_and_isr import leader_and_isr_updates
from kraft.controller.unclean.election_facts import Recovered, Waiting
from kraft.controller.unclean.recovery import Question, UncleanRecoveries, retry_seconds
from kraft.controller.unclean.replica_questions import ReplicaQuestions
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.metadata.image.topics_image import TopicIdPartition
from kraft.world.ports import Clock
from kraft.world.steps import Steps
from kraft.world.turns import TURN_ITEMS, in_turns

LOOK_SECONDS: Final = 0.25
ELECTIONS_PER_WRITE: Final = 1_000
PARTITIONS_PER_STEP: Final = 500
"""Partitions checked between two yields."""

WAITS_TOLD_MAX: Final = 20
"""Limit of waiting partitions reported in one check. The rest is reported in later ones."""
TELLING_SECONDS: Final = 1.0
"""Seconds from a check that left some partitions unreported to the next report, even if nothing has changed."""

Tell = Callable[[Recovered], None]
TellWaiting = Callable[[Waiting], None]


class LeaderlessWatch:
    """The watch for one epoch in which this node is the active controller."""

    def __init__(
        self,
        write: Write,
        view: Callable[[], ControllerView],
        clock: Clock,
        questions: ReplicaQuestions,
        watch: BrokerWatch,
        tell: Tell,
        tell_waiting: TellWaiting,
        recoveries: UncleanRecoveries,
    ) -> None:
        """`tell` is called for every leader that a recovery chose, once that is committed. `tell_waiting` is called for
        a partition that has waited for replicas for a while, and again when the awaited replicas change."""
        self._write = write
        self._view = view
        self._clock = clock
        self._questions = questions
        self._watch = watch
        self._tell = tell
        self._tell_waiting = tell_waiting
        self._recoveries = recoveries
        self._seen: ControllerView | None = None
        self._next_look = 0.0
        """The time of the next check even if nothing has changed: a timeout may end then."""
        self._suspects: list[tuple[int, int]] = []
        self._probes = 0
        self._next_probe = 0.0

    async def look(self) -> None:
        """Check the leaderless partitions, and send one round of questions if needed. Raises ApiError if this node is
        no longer the active controller."""
        view, seen = self._view(), self._seen
        if not view.image.topics.leaderless or (
            seen is not None and view.is_same_as(seen) and self._clock.now() < self._next_look
        ):
            self._seen = view
            return
        await in_turns(view.image.topics.leaderless.sort(), TURN_ITEMS)
        if seen is not None and view.image.configs is not seen.image.configs:
            await self._elect_what_may_be()
        self._recoveries.forget_led(self._view())
        asks, deaths = await self._questions_of_all()
        if len(self._recoveries):
            await self._recover(asks, deaths)
        self._seen = view

    async def _elect_what_may_be(self) -> None:
        """Hold elections that a configuration change now allows, without waiting for the next periodic scan."""

        def elect(view: ControllerView) -> Steps[ControllerResult[None]]:
            yield from view.image.topics.leaderless.sort()
            keys = [key for key, _ in zip(view.image.topics.leaderless, range(ELECTIONS_PER_WRITE), strict=False)]
            return ControllerResult([*(yield from leader_and_isr_updates(view, keys))], None)

        await self._write(elect)

    def candidate(self, view: ControllerView, key: TopicIdPartition) -> int | None:
        """See `UncleanRecoveries.candidate`."""
        return self._recoveries.candidate(view, key)

    def waiting(self, keys: Sequence[TopicIdPartition]) -> tuple[Waiting, ...]:
        """Return the waits of the leaderless partitions among `keys`, as of now."""
        return tuple(self._recoveries.waiting(self._view(), self._clock.now(), keys))

    def _slices(self) -> Iterator[Sequence[TopicIdPartition]]:
        keys = tuple(self._view().image.topics.leaderless)
        return (keys[start : start + PARTITIONS_PER_STEP] for start in range(0, len(keys), PARTITIONS_PER_STEP))

    async def _questions_of_all(self) -> tuple[list[Question], dict[int, int]]:
        """Return the questions about all leaderless partitions. Yields to other tasks after every few hundred
        partitions."""
        asks: list[Question] = []
        deaths: dict[int, int] = {}
        for keys in self._slices():
            questions = self._recoveries.questions(self._view(), self._clock.now(), keys)
            asks += questions.asks
            deaths.update(questions.deaths)
            if len(keys) == PARTITIONS_PER_STEP:
                await trio.lowlevel.checkpoint()
        return asks, deaths

    async def _recover(self, asks: Sequence[Question], deaths: Mapping[int, int]) -> None:
        dead: list[tuple[int, int]] = []
        async with trio.open_nursery() as round_nursery:
            for broker in self._brokers_to_probe(deaths):
                round_nursery.start_soon(self._look_for, broker, dead)
            await self._ask(asks)
        self._recoveries.found_dead(sorted(dead))
        comparisons = (await self._questions_of_all())[0]
        await self._ask([ask for ask in comparisons if ask.epochs])
        for keys in self._slices():
            if self._recoveries.has_open(keys):
                chosen = await self._write(partial(self._decide, keys=keys))
                for recovered in chosen:
                    self._tell(recovered)
        waits = list(islice(self._recoveries.waits_to_tell(self._view(), self._clock.now()), WAITS_TOLD_MAX))
        for waiting in waits:
            self._tell_waiting(waiting)
        next_telling = self._clock.now() + TELLING_SECONDS if len(waits) == WAITS_TOLD_MAX else math.inf
        self._next_look = min(self._recoveries.take_due(), self._next_probe if deaths else math.inf, next_telling)

    def _brokers_to_probe(self, deaths: Mapping[int, int]) -> list[BrokerRegistration]:
        """Return the fenced brokers to probe in this round.

        All of them are probed in the same rounds, because a decision needs all results together. The pause between
        rounds grows. It restarts short when the set of brokers changes.
        """
        suspects, now = sorted(deaths.items()), self._clock.now()
        if suspects != self._suspects:
            self._suspects, self._probes, self._next_probe = suspects, 0, now
        if not suspects or now < self._next_probe:
            return []
        self._probes += 1
        self._next_probe = now + retry_seconds(self._probes)
        brokers = self._view().image.cluster.brokers
        return [
            broker
            for broker_id, epoch in suspects
            if (broker := brokers.get(broker_id)) is not None and broker.epoch == epoch
        ]

    def _decide(
        self, view: ControllerView, keys: Sequence[TopicIdPartition]
    ) -> ControllerResult[tuple[Recovered, ...]]:
        return self._recoveries.decide(view, self._clock.now(), self._clock.wall_ms(), keys)

    async def _ask(self, asks: Sequence[Question]) -> None:
        brokers = self._view().image.cluster.brokers
        asked = [
            broker
            for broker_id in sorted({ask.broker_id for ask in asks})
            if (broker := brokers.get(broker_id)) is not None
        ]
        answers = dict(await self._questions.ask(asked, asks))
        for ask in asks:
            answer = answers.get(ask)
            if answer is None:
                self._recoveries.unanswered(ask, self._clock.now())
            else:
                self._recoveries.answered(ask, answer.end, answer.epoch_ends)

    async def _look_for(self, broker: BrokerRegistration, dead: list[tuple[int, int]]) -> None:
        if await self._watch.is_proven_dead(broker):
            dead.append((broker.id, broker.epoch))
