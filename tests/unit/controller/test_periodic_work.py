"""What an active controller does unasked."""

from __future__ import annotations

import pytest

from kraft.controller.replication_control import elect_leaders
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.world.simulated import Universe
from tests.unit.controller.harness import displaced, keep_beating, running, simulate


def test_an_idle_controller_writes_no_op_records() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, metadata_max_idle_interval_ms=500) as rig:
            await universe.sleep(5.2)
            count = sum(isinstance(record, NoOpRecord) for record in rig.log.records())
            assert 9 <= count <= 11

    simulate(body)


def test_the_leader_balance_task_elects_preferred_leaders() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, leader_imbalance_check_interval_ms=4_000) as rig:
            first = await displaced(rig)
            await keep_beating(rig, universe, 1, 2, seconds=5)
            assert rig.partition("t").leader == first
            assert not rig.image.topics.imbalanced

    simulate(body)


def test_periodic_work_prevented_by_a_full_disk_is_done_when_there_is_space() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, metadata_max_idle_interval_ms=500) as rig:
            rig.log.is_full = True
            await universe.sleep(3)
            assert not any(isinstance(record, NoOpRecord) for record in rig.log.records())
            rig.log.is_full = False
            await universe.sleep(1)
            assert any(isinstance(record, NoOpRecord) for record in rig.log.records())

    simulate(body)


def test_a_standby_controller_does_no_periodic_work() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, metadata_max_idle_interval_ms=500) as rig:
            await rig.broker(2)
            rig.log.lose(leader_id=3, epoch=2)
            before = rig.log.log_end_offset
            await universe.sleep(60)
            assert rig.log.log_end_offset == before

    simulate(body)


def test_a_periodic_task_that_raises_is_suspended_and_the_others_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(view: object) -> object:
        raise AssertionError("no such leader")

    async def body(universe: Universe) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(elect_leaders, "balance_leaders", broken)
            async with running(
                universe, leader_imbalance_check_interval_ms=1_000, metadata_max_idle_interval_ms=500
            ) as rig:
                await universe.sleep(5.5)
                (failed,) = rig.controller.set_aside.items()
                assert (failed.item, failed.count, failed.error) == (
                    "balance leaders",
                    5,
                    "AssertionError: no such leader",
                )
                assert sum(isinstance(record, NoOpRecord) for record in rig.log.records()) >= 9
                patched.undo()
                await universe.sleep(1)
                assert rig.controller.set_aside.items() == []

    simulate(body)
