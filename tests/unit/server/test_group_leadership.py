"""When the group coordinator hears of elections and resignations."""

from __future__ import annotations

from typing import Any

from kraft.common.internal_topics import OFFSETS_TOPIC
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, broker, simulate


def overhear(made: Broker) -> list[Any]:
    """Elections with the leader that handlers see at that moment, and resignations."""
    told: list[Any] = []

    def elected(index: int, leader_epoch: int) -> None:
        topic = made.server.metadata.image.topics.by_name(OFFSETS_TOPIC)
        told.append(("elected", index, leader_epoch, topic and topic.partitions[index].leader_epoch))

    made.server.groups.on_election = elected  # type: ignore[method-assign]
    made.server.groups.on_resignation = lambda index, epoch=None: told.append(("resigned", index))  # type: ignore[method-assign]
    return told


def test_coordinators_learn_of_an_election_when_handlers_see_its_metadata() -> None:
    """Topics that the predecessor knew are known by then: their offsets are not taken for those of deleted ones."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            told = overhear(made)
            topic = made.topic(OFFSETS_TOPIC, partitions=2, replicas=(NODE, 2))
            made.change(topic, leader=2)
            made.change(topic, leader=NODE)
            assert told == [("elected", 0, 0, 0), ("elected", 1, 0, 0), ("resigned", 0), ("elected", 0, 2, 2)]
            made.topic("other")
            assert len(told) == 4, "once"

    simulate(play)


def test_an_election_superseded_before_its_notification_is_not_notified() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            told = overhear(made)
            publish = made.replicas.apply

            def losing_its_directory(*arguments: Any) -> Any:
                yield from publish(*arguments)
                made.replicas.directory_failed("/data", "no more")

            made.replicas.apply = losing_its_directory  # type: ignore[method-assign]
            made.topic(OFFSETS_TOPIC)
            assert told == [("resigned", 0)]

    simulate(play)
