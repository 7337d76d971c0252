"""A segment is told as copied only while it lies in the store whole, whatever dies, fails or comes late; and nothing
stays behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import trio

from kraft.remote.object_names import partition_folder
from kraft.remote.segment_copies import CopyFailed, MetadataNotWritten, StrayObjects
from kraft.world.ports import ObjectError
from kraft.world.simulated import Universe
from kraft.world.simulated.objects import ObjectFaults
from tests.unit.remote.support import DELETED, DELETING, FINISHED, PARTITION, STARTED
from tests.unit.remote.tier import SEGMENTS, Broker, Topic, assert_clean, in_a_life, run


def alone(body: Callable[[Broker, Topic], Awaitable[None]], seed: int = 0) -> Topic:
    """`body` in one life of a broker."""
    topics: list[Topic] = []

    async def main(universe: Universe, topic: Topic) -> None:
        topics.append(topic)
        assert await in_a_life(universe, topic, lambda broker: body(broker, topic))

    run(seed, main)
    return topics[0]


def test_a_segment_is_copied_with_all_its_files() -> None:
    async def body(broker: Broker, topic: Topic) -> None:
        await broker.work()
        assert broker.remote.being_copied == {}

    topic = alone(body)
    assert_clean(topic)
    assert len(topic.records) == 2 * SEGMENTS


def test_a_deleted_segment_leaves_no_object() -> None:
    async def body(broker: Broker, topic: Topic) -> None:
        await broker.work()
        for each in broker.cache.segments():
            assert await broker.remote.delete(each)
            assert broker.cache.was_deleted(each.segment_id)

    topic = alone(body)
    assert topic.server.objects == {}
    assert topic.reader().segments() == ()


CALLS_MAX = 120


@pytest.mark.parametrize("power_lost", [False, True])
def test_a_broker_that_dies_at_any_step_leaves_no_partial_state(power_lost: bool) -> None:
    ends = []

    async def main(universe: Universe, topic: Topic) -> None:
        universe.world_for(1)
        universe.kill_after_calls(1, calls, power_lost=power_lost)
        ends.append(await in_a_life(universe, topic, Broker.work))
        universe.kill(1)
        await universe.sleep(60.0)  # What was on its way arrives.
        assert await in_a_life(universe, topic, Broker.work_until_done)
        assert_clean(topic)

    for calls in range(CALLS_MAX):
        run(calls, main)
    assert ends[0] is False
    assert ends[-1] is True  # Every step was died at.
    assert ends == sorted(ends)


@pytest.mark.parametrize("seed", range(25))
def test_two_brokers_that_believe_each_other_dead_lose_no_data(seed: int) -> None:
    """Each gives up what the other copies, while answers are lost and requests come late."""

    async def main(universe: Universe, topic: Topic) -> None:
        topic.unknown_rate = 0.1
        topic.server.faults = ObjectFaults(failure_rate=0.02, lost_answer_rate=0.02, late_rate=0.02, damage_rate=0.02)

        async def live(number: int) -> None:
            world = universe.world_for(number)

            async def alive(_: object) -> None:
                broker = Broker(topic, world)
                for _ in range(6):
                    try:
                        await broker.work()
                    except (CopyFailed, MetadataNotWritten, ObjectError):
                        await world.clock.sleep(0.3)

            await universe.live(world, alive)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(live, 1)
            nursery.start_soon(live, 2)
        await universe.sleep(300.0)
        topic.check()
        topic.unknown_rate = 0.0
        topic.server.faults = ObjectFaults()
        assert await in_a_life(universe, topic, Broker.work_until_done)
        assert {each.start_offset for each in topic.reader().segments() if each.is_finished} == {0, 10}

    run(seed, main)


@pytest.mark.parametrize("seed", range(15))
def test_intermittent_failures_of_store_and_topic_delay_and_damage_nothing(seed: int) -> None:
    async def main(universe: Universe, topic: Topic) -> None:
        topic.unknown_rate = 0.05
        topic.server.faults = ObjectFaults(failure_rate=0.03, lost_answer_rate=0.03, late_rate=0.03, damage_rate=0.03)
        assert await in_a_life(universe, topic, Broker.work_until_done)
        await universe.sleep(300.0)
        topic.unknown_rate = 0.0
        topic.server.faults = ObjectFaults()
        assert await in_a_life(universe, topic, Broker.work_until_done)
        assert_clean(topic)

    run(seed, main)


def test_a_wrongly_stored_object_is_not_recorded_as_copied() -> None:
    async def body(broker: Broker, topic: Topic) -> None:
        topic.server.faults.damage_rate = 1.0
        with pytest.raises(CopyFailed, match="read back where"):
            await broker.work()

    topic = alone(body)
    assert topic.server.bites["damage"] == 1
    assert topic.server.objects == {}
    assert topic.reader().segments() == ()


def test_a_former_leader_copies_no_more_files() -> None:
    async def body(broker: Broker, topic: Topic) -> None:
        new = broker.new_segment(0)
        broker.leads = False
        with pytest.raises(CopyFailed, match="leads no more"):
            await broker.remote.copy(new, broker.contents())
        assert topic.records == []
        broker.leads = True
        put = topic.server.put

        def put_and_depose(name: str, content: bytes) -> None:
            put(name, content)
            broker.leads = False

        topic.server.put = put_and_depose  # type: ignore[method-assign]
        with pytest.raises(CopyFailed, match="leads no more"):
            await broker.remote.copy(new, broker.contents())

    topic = alone(body)
    assert topic.server.objects == {}
    assert len(topic.records) == 3  # The copy's start, and its deletion.


def test_a_missing_file_is_not_copied() -> None:
    async def body(broker: Broker, topic: Topic) -> None:
        contents = broker.contents()
        broker.world.files.remove("/segment.log")
        with pytest.raises(CopyFailed):
            await broker.remote.copy(broker.new_segment(0), contents)

    assert alone(body).server.objects == {}


def test_a_copy_abandoned_by_another_broker_is_not_finished() -> None:
    async def body(broker: Broker, topic: Topic) -> None:
        new, other = broker.new_segment(0), Broker(topic, broker.world)
        append = broker.log.append

        async def append_late(record):  # type: ignore[no-untyped-def]
            if len(topic.records) == 1:
                await other.log.catch_up()
                assert await other.remote.delete(other.cache.segments()[0])
            await append(record)

        broker.log.append = append_late  # type: ignore[method-assign]
        with pytest.raises(CopyFailed, match="another broker gave it up"):
            await broker.remote.copy(new, broker.contents())
        assert not await other.store.list_names(partition_folder(PARTITION), "", 10)

    alone(body)


def test_abandoning_a_copy_that_was_finished_meanwhile_keeps_it() -> None:
    async def body(broker: Broker, topic: Topic) -> None:
        await broker.work()
        seen_before = replace(broker.cache.segments()[0], state=STARTED)
        assert not await broker.remote.delete(seen_before)
        assert broker.cache.segments()[0].is_finished
        topic.check()

    alone(body)


def test_deleting_a_segment_deleted_by_another_broker_has_no_effect() -> None:
    async def body(broker: Broker, topic: Topic) -> None:
        await broker.work()
        first = broker.cache.segments()[0]
        assert await Broker(topic, broker.world).remote.delete(first)
        deletes = topic.deletes_seen
        assert await broker.remote.delete(first)
        assert topic.deletes_seen == deletes

    alone(body)


def test_late_objects_are_found_and_deleted_and_unknown_objects_are_reported() -> None:
    async def body(broker: Broker, topic: Topic) -> None:
        await broker.work()
        before = dict(topic.server.objects)
        first = broker.cache.segments()[0]
        await broker.remote.delete(first)
        late = [name for name in before if name not in topic.server.objects]
        topic.server.objects.update((name, before[name]) for name in late)
        folder = partition_folder(PARTITION)
        stranger = f"{folder}/{0:020}-{'A' * 22}.log"
        topic.server.objects.update({f"{folder}/notes.txt": b"", "elsewhere": b"", stranger: b""})
        found = await broker.remote.delete_stray_objects(PARTITION)
        assert found == StrayObjects(deleted=sorted(late), unknown=sorted((stranger, f"{folder}/notes.txt")))
        assert topic.server.objects.keys() == {*before, stranger, f"{folder}/notes.txt", "elsewhere"} - set(late)

    alone(body)


def test_objects_are_judged_by_metadata_that_is_newer() -> None:
    async def body(broker: Broker, topic: Topic) -> None:
        await broker.work()
        found = await Broker(topic, broker.world).remote.delete_stray_objects(PARTITION)
        assert found == StrayObjects(deleted=[], unknown=[])

    alone(body)


def test_the_metadata_records_of_a_segment_are_in_order() -> None:
    async def body(broker: Broker, topic: Topic) -> None:
        new = broker.new_segment(0)
        states = []
        assert broker.cache.get(new.segment_id) is None
        states.append((await broker.remote.copy(new, broker.contents())).state)
        await broker.log.append(new.state_update(DELETING, broker_id=1, now_ms=0))
        found = broker.cache.get(new.segment_id)
        assert found is not None
        states.append(found.state)
        assert await broker.remote.delete(found)
        assert states == [FINISHED, DELETING]
        assert not broker.cache.replay(new.state_update(DELETED, broker_id=1, now_ms=0))

    alone(body)
