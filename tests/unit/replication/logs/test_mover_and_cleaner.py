"""Compaction and moves of the same logs: what a copy has of a transaction or a key, it has to its end."""

from __future__ import annotations

from kraft.protocol.records.control_record import ControlRecordType
from kraft.world.simulated import Universe
from tests.unit.replication.logs.cleanings import CLEANINGS, EAGER, T0, clean
from tests.unit.replication.logs.log_dir_moves import FIRST, SECOND, Mover, mover
from tests.unit.server.brokers import Broker, simulate
from tests.unit.storage.producers.producer_batches import end
from tests.unit.storage.recovery.transactional_log import produce
from tests.unit.storage.support import content


async def half_a_transaction_copied(universe: Universe, it: Mover) -> None:
    """The copy waits to take the log's place. It has a record of a transaction that is aborted only then, and whose
    producer commits another."""
    it.made.topic("t", **EAGER)
    log = it.made.partition("t").log
    produce(log, 0)
    await it.follow(universe)
    end(log, ControlRecordType.ABORT)
    produce(log, 1)
    end(log, ControlRecordType.COMMIT)


def test_a_log_is_not_cleaned_while_it_is_copied() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await half_a_transaction_copied(universe, it)
            done = clean(it.made)
            it.silent = False
            await universe.sleep(1.0)
            assert it.at == f"{SECOND}/t-0"
            log = it.made.partition("t").log
            assert content(log)[0] == (0, b"k", b"0")
            assert [each.first_offset for each in log.aborted_transactions(0, log.log_end_offset)] == [0]
            assert done == 0
            assert clean(it.made) == CLEANINGS
            assert content(log)[0][0] > 0
            assert log.aborted_transactions(0, log.log_end_offset) == []

    simulate(play)


def test_a_log_is_not_cleaned_before_a_move_interrupted_by_a_restart_resumes() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await half_a_transaction_copied(universe, it)
            again = Broker(it.made.world, it.made.server._nursery, (FIRST, SECOND))
            again.image = it.made.image
            again.logs.load(it.made.world.clock.wall_ms())
            assert clean(again) == 0
            again.logs.futures.forget_interrupted(T0, now_ms=it.made.world.clock.wall_ms())
            assert clean(again) == CLEANINGS

    simulate(play)


def test_a_copy_that_was_offline_while_its_log_was_cleaned_is_not_resumed() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await half_a_transaction_copied(universe, it)
            copy = it.made.replicas.directories.mover.moves()[0].future.directory
            it.made.replicas.directory_failed(SECOND, "test")
            await universe.sleep(0.3)
            assert clean(it.made) == CLEANINGS
            again = Broker(it.made.world, it.made.server._nursery, (FIRST, SECOND))
            again.logs.futures.finish_moves(0)
            assert not again.logs.futures.interrupted_moves
            job = again.logs.due_deletions(0)
            assert job is not None
            assert copy in job.paths

    simulate(play)
