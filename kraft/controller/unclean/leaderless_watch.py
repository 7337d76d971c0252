"""What an active controller does for partitions that nobody leads: it acts at once when a configuration allows an
election, and carries out recoveries.

Looks at the image a few times a second, and does nothing unless there is a leaderless partition and something has
changed, or a recovery is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import trio

from kraft.controller.broker_watch import BrokerWatch, Write
from kraft.controller.controller_result import ControllerResult
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.leader_and_isr import leader_and_isr_updates
from kraft.controller.unclean.recovery import Question, Questions, Recovered, UncleanRecoveries, Waiting
from kraft.controller.unclean.replica_questions import ReplicaQuestions
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.metadata.image.topics_image import TopicIdPartition
from kraft.world.ports import Clock

LOOK_SECONDS: Final = 0.25
ELECTIONS_PER_WRITE: Final = 1_000

Tell = Callable[[Recovered], None]


class LeaderlessWatch:
    """One for each epoch in which a node is the active controller."""

    def __init__(
        self,
        write: Write,
        view: Callable[[], ControllerView],
        clock: Clock,
        questions: ReplicaQuestions,
        watch: BrokerWatch,
        tell: Tell,
        recoveries: UncleanRecoveries,
    ) -> None:
        """`tell` hears of every leader that a recovery chose, once that is committed."""
        self._write = write
        self._view = view
        self._clock = clock
        self._questions = questions
        self._watch = watch
        self._tell = tell
        self._recoveries = recoveries
        self._seen: ControllerView | None = None

    async def look(self) -> None:
        """One look, and a round of questions if there is something to find out. Raises ApiError when this node is
        not the active controller any more."""
        view, seen = self._view(), self._seen
        if view.image.topics.leaderless and (seen is None or not view.is_same_as(seen) or len(self._recoveries)):
            if seen is not None and view.image.configs is not seen.image.configs:
                await self._elect_what_may_be()
            questions = self._recoveries.questions(self._view(), self._clock.now())
            if len(self._recoveries):
                await self._recover(questions)
        self._seen = view

    async def _elect_what_may_be(self) -> None:
        """A configuration changed: elections that it allows do not wait for the next periodic scan."""

        def elect(view: ControllerView) -> ControllerResult[None]:
            keys = [key for key, _ in zip(view.image.topics.leaderless, range(ELECTIONS_PER_WRITE), strict=False)]
            return ControllerResult(list(leader_and_isr_updates(view, keys)), None)

        await self._write(elect)

    def candidate(self, view: ControllerView, key: TopicIdPartition) -> int | None:
        """See `UncleanRecoveries.candidate`."""
        return self._recoveries.candidate(view, key)

    def waiting(self) -> tuple[Waiting, ...]:
        """The partitions that wait for an election, as of now."""
        return tuple(self._recoveries.waiting(self._view(), self._clock.now()))

    async def _recover(self, questions: Questions) -> None:
        brokers = self._view().image.cluster.brokers
        suspects = [
            broker
            for broker_id, epoch in questions.deaths
            if (broker := brokers.get(broker_id)) is not None and broker.epoch == epoch
        ]
        dead: list[tuple[int, int]] = []
        async with trio.open_nursery() as round_nursery:
            for broker in suspects:
                round_nursery.start_soon(self._look_for, broker, dead)
            await self._ask(questions.asks)
        self._recoveries.found_dead(sorted(dead))
        comparisons = self._recoveries.questions(self._view(), self._clock.now()).asks
        await self._ask([ask for ask in comparisons if ask.epochs])
        chosen = await self._write(lambda view: self._recoveries.decide(view, self._clock.now(), self._clock.wall_ms()))
        for recovered in chosen:
            self._tell(recovered)

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
                self._recoveries.unanswered(ask)
            else:
                self._recoveries.answered(ask, answer.end, answer.epoch_ends)

    async def _look_for(self, broker: BrokerRegistration, dead: list[tuple[int, int]]) -> None:
        if await self._watch.is_proven_dead(broker):
            dead.append((broker.id, broker.epoch))
