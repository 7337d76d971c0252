"""kraft/replication/unclean/unreported_loss_files.py"""

from __future__ import annotations

from contextlib import suppress

import pytest

from kraft.common.config.dynamic.loss_reports import Loss, UnreportedLoss
from kraft.common.errors import CorruptData
from kraft.replication.unclean.unreported_loss_files import UnreportedLossCheckpoint
from kraft.storage.checkpoints import replace_file
from kraft.world.simulated.node import NodeDied
from tests.unit.storage.support import TOPIC_ID, Machine

FIRST = UnreportedLoss("t", TOPIC_ID, 0, 4, Loss(10, 20, 15, 6, 1_700_000_000_000))
SECOND = UnreportedLoss("a.b-c_d", TOPIC_ID, 7, -1, Loss(0, 1, 0, 9, 5))
PATH = "/data/untold-cuts-checkpoint"


def test_the_loss_checkpoint_is_text_that_reads_back_equal() -> None:
    machine = Machine()
    assert UnreportedLossCheckpoint(machine.files, "/data").read() == []
    UnreportedLossCheckpoint(machine.files, "/data").job([FIRST, SECOND]).run()
    machine.power_off()
    assert UnreportedLossCheckpoint(machine.files, "/data").read() == [FIRST, SECOND]
    file = machine.files.open(PATH, writable=False)
    assert file.pread(1000, 0).decode().splitlines() == [
        "0",
        "2",
        "t 0 MDEyMzQ1Njc4OWFiY2RlZg 4 10 20 15 6 1700000000000",
        "a.b-c_d 7 MDEyMzQ1Njc4OWFiY2RlZg -1 0 1 0 9 5",
    ]


def test_a_crash_during_a_write_leaves_the_old_or_the_new_loss_checkpoint() -> None:
    """At every file call, whatever the disk keeps of what was not synced."""
    seen, calls = [], 0
    while True:
        machine = Machine(seed=calls)
        UnreportedLossCheckpoint(machine.files, "/data").job([FIRST]).run()
        machine.node.die_after_calls(calls, power_lost=True)
        with suppress(NodeDied):
            UnreportedLossCheckpoint(machine.files, "/data").job([FIRST, SECOND]).run()
        is_done = machine.node.alive
        machine.power_off()
        seen.append(UnreportedLossCheckpoint(machine.files, "/data").read())
        if is_done:
            break
        calls += 1
    assert seen[0] == [FIRST]
    assert seen[-1] == [FIRST, SECOND]
    assert all(cuts in ([FIRST], [FIRST, SECOND]) for cuts in seen)


def test_a_later_checkpoint_job_replaces_one_still_in_progress() -> None:
    machine = Machine()
    checkpoint = UnreportedLossCheckpoint(machine.files, "/data")
    slow = checkpoint.job([])
    slow.prepare()
    checkpoint.job([FIRST]).run()
    slow.put_in_place()
    slow.finish()
    assert checkpoint.read() == [FIRST]


@pytest.mark.parametrize(
    "line",
    [
        "t 0",
        "t x MDEyMzQ1Njc4OWFiY2RlZg 4 10 20 15 6 1",
        "t 0 MDEyMzQ1Njc4OWFiY2RlZg 4 10 20 15 6 1 9",
        "t 0 id 4 10 20 15 6 1",
    ],
)
def test_a_damaged_line_of_the_loss_checkpoint_is_named_in_the_error(line: str) -> None:
    machine = Machine()
    replace_file(machine.files, PATH, f"0\n1\n{line}\n".encode())
    with pytest.raises(CorruptData, match="untold-cuts-checkpoint: malformed line"):
        UnreportedLossCheckpoint(machine.files, "/data").read()
