"""Rows that tasks write in transactions of their own, which the driver's note decides: each exactly once, wherever a
driver dies or pauses, and whatever other attempts do."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from kraft.spark.client.wire import WireCluster
from kraft.spark.errors import SourceError
from kraft.spark.sink import exactly_once_writer, task_transaction
from kraft.spark.sink.batch_commit import BatchContent, BatchOrigin, CommitRules, SinkIdentity, commit_batch
from kraft.spark.sink.exactly_once_writer import OnceWriter
from kraft.spark.sink.open_transactions import end_all
from kraft.spark.sink.prepared_transactions import (
    PreparedTransaction,
    Slots,
    decoded,
    encoded,
    left_over,
    not_open,
)
from kraft.spark.sink.staging import Staging
from kraft.spark.sink.task_transaction import SlotPool, open_task_transaction
from tests.unit.spark.sink_rows import incoming_rows
from tests.unit.spark.transactional_cluster import Killed, TransactionalCluster

SINK = SinkIdentity("query", "a", "")
KEY = SINK.transactional_id
RULES = CommitRules(60_000, "fail", once_a_run=False)
TASKS = 2
REQUESTS_MAX = 100

A, B = PreparedTransaction("s/task/r/w-1", 7, 0), PreparedTransaction("s/task/r/w-2", 8, 3)


def test_only_open_transactions_that_were_not_chosen_are_left_over() -> None:
    older = A._replace(epoch=9)
    assert left_over([A], [A, B, older]) == (B, older)
    assert not_open([A, B], [B, older]) == (A,)


def test_the_note_names_transactions_without_their_common_prefix() -> None:
    assert encoded([A, B], "s") == [["r/w-1", 7, 0], ["r/w-2", 8, 3]]
    assert decoded(encoded([A, B], "s"), "s") == (A, B)


def test_tasks_of_a_batch_take_different_slots_and_batches_share_them() -> None:
    slots = Slots("w")
    taken = [slots.take(sink, "r", 1) for sink in ("s", "o", "s", "s")]
    assert taken == ["w-1", "w-1", "w-2", "w-3"]
    assert slots.take("s", "r", 2) == "w-1"
    assert slots.take("s", "next run", 2) == "w-1"


class Run:
    """One run of the query: its driver, and a Python worker for its tasks."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = name
        self.cluster = WireCluster("h:1")
        self.slots = SlotPool()
        self.monkeypatch = monkeypatch

    def attempt(self, batch: int, task: int) -> OnceWriter:
        """An attempt that has sent a part of its rows."""
        self.monkeypatch.setattr(task_transaction, "POOL", self.slots)
        cluster = WireCluster("h:1")
        writer = OnceWriter(
            cluster,
            batch,
            task,
            0,
            Staging(cluster, SINK.staging_topic),
            lambda: open_task_transaction(cluster, KEY, self.name, batch, 1_000),
        )
        for value in rows_of(batch, task):
            writer.write(incoming_rows([("a", None, value, None, None, None)]))
            writer.packer.pack_all()
        return writer

    def tasks(self, batch: int) -> BatchContent:
        """Run the tasks of the batch. Of task 0 a second copy ends, too, and a third one is killed."""
        writers = [self.attempt(batch, task) for task in (0, *range(TASKS), 0)]
        chosen = writers[1 : 1 + TASKS]
        writers[0].finish()
        parcels = tuple(parcel for each in chosen for parcel in each.finish())
        rows = sum(len(rows_of(batch, task)) for task in range(TASKS))
        return BatchContent(rows, parcels, tuple(each.prepared for each in chosen if each.prepared is not None))

    def commit(self, batch: int, content: BatchContent) -> bool:
        return commit_batch(self.cluster, SINK, BatchOrigin(SINK.query, batch, self.name), content, RULES)


def rows_of(batch: int, task: int) -> list[bytes]:
    return [b"%d/%d/%d" % (batch, task, number) for number in range(3)]


def all_rows(*of_batches: int) -> Counter[bytes]:
    return Counter(value for batch in of_batches for task in range(TASKS) for value in rows_of(batch, task))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> TransactionalCluster:
    monkeypatch.setattr(exactly_once_writer, "INLINE_BYTES_MAX", 1)
    monkeypatch.setattr(exactly_once_writer, "STAGE_BYTES", 1)
    return TransactionalCluster(monkeypatch, a=2)


def test_rows_are_committed_by_the_note_and_the_other_attempts_aborted(
    cluster: TransactionalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run("r", monkeypatch)
    for batch in (0, 1):
        content = run.tasks(batch)
        assert (len(content.prepared), content.parcels) == (TASKS, ())
        assert cluster.committed("a") == all_rows(*range(batch))
        assert run.commit(batch, content)
        assert cluster.committed("a") == all_rows(*range(batch + 1))
        assert cluster.open_ids() == []
    assert SINK.staging_topic not in cluster.topics


def test_rows_go_through_the_driver_where_two_phase_commit_is_not_offered(
    cluster: TransactionalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.is_offered = False
    run = Run("r", monkeypatch)
    content = run.tasks(0)
    assert content.prepared == ()
    assert run.commit(0, content)
    assert cluster.committed("a") == all_rows(0)
    assert "ListTransactionsRequest" not in cluster.asked


@pytest.mark.parametrize("answers_lost", [False, True])
def test_each_row_is_committed_once_wherever_a_driver_is_killed(
    monkeypatch: pytest.MonkeyPatch, answers_lost: bool
) -> None:
    """Kill it in each request of its commit in turn. The next run repeats the batch, and goes on."""
    died = 0
    for request in range(REQUESTS_MAX):
        with monkeypatch.context() as patches:
            patches.setattr(exactly_once_writer, "INLINE_BYTES_MAX", 1)
            patches.setattr(exactly_once_writer, "STAGE_BYTES", 1)
            cluster = TransactionalCluster(patches, a=2)
            first, second = Run("first", patches), Run("second", patches)
            assert first.commit(0, first.tasks(0))
            content = first.tasks(1)
            cluster.die_at(request, answers_lost=answers_lost)
            try:
                first.commit(1, content)
            except Killed:
                died += 1
            is_over = died == request
            cluster.die_at(None)
            second.commit(1, second.tasks(1))
            assert cluster.committed("a") == all_rows(0, 1), request
            assert second.commit(2, second.tasks(2))
            assert cluster.committed("a") == all_rows(0, 1, 2), request
            assert cluster.open_ids() == [], request
        if is_over:
            break
    assert died > 10


def test_a_paused_driver_harms_no_batch_of_the_run_that_replaced_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pause it in each request of its commit in turn, until the next run has prepared or committed more."""
    for commits in (1, 2):
        reached = True
        for request in range(REQUESTS_MAX):
            with monkeypatch.context() as patches:
                reached = replaced_while_paused(patches, request, commits)
            if not reached:
                break
        assert not reached


def replaced_while_paused(patches: pytest.MonkeyPatch, request: int, commits: int) -> bool:
    """Whether the driver made so many requests. The next run repeats the batch and `commits - 1` more; then it prepares
    another one, the paused driver wakes and ends, and the next run commits."""
    patches.setattr(exactly_once_writer, "INLINE_BYTES_MAX", 1)
    patches.setattr(exactly_once_writer, "STAGE_BYTES", 1)
    cluster = TransactionalCluster(patches, a=2)
    zombie, current = Run("zombie", patches), Run("current", patches)
    assert zombie.commit(0, zombie.tasks(0))
    content = zombie.tasks(1)

    def commit() -> None:
        try:
            zombie.commit(1, content)
        except SourceError:
            pass  # It was fenced.

    thread = threading.Thread(target=commit, daemon=True)
    cluster.paused_thread = thread
    cluster.die_at(request)
    thread.start()
    while thread.is_alive() and not cluster.reached.wait(0.001):
        pass
    for batch in range(1, commits + 1):
        current.commit(batch, current.tasks(batch))
    following = current.tasks(commits + 1)
    cluster.goes_on.set()
    thread.join(30)
    assert not thread.is_alive()
    cluster.die_at(None)
    assert current.commit(commits + 1, following)
    assert cluster.committed("a") == all_rows(*range(commits + 2)), (request, commits)
    assert cluster.open_ids() == []
    return cluster.reached.is_set()


def test_a_late_driver_that_repeats_a_noted_batch_aborts_only_its_own_transactions(
    cluster: TransactionalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, late, current = (Run(name, monkeypatch) for name in ("first", "late", "current"))
    die_after_the_note(first, 0, monkeypatch)
    repeated = late.tasks(0)
    assert not current.commit(0, current.tasks(0))
    following = current.tasks(1)
    assert not late.commit(0, repeated)
    assert current.commit(1, following)
    assert cluster.committed("a") == all_rows(0, 1)
    assert cluster.open_ids() == []


def die_after_the_note(run: Run, batch: int, monkeypatch: pytest.MonkeyPatch) -> BatchContent:
    """Kill the driver between the committed note and the first end of a task's transaction."""

    def die(*_: object) -> bool:
        raise Killed

    content = run.tasks(batch)
    with monkeypatch.context() as patches:
        patches.setattr("kraft.spark.sink.batch_commit.complete_noted", die)
        with pytest.raises(Killed):
            run.commit(batch, content)
    return content


@pytest.mark.parametrize("is_retry", [False, True])
def test_a_task_attempt_that_wakes_after_its_batch_was_decided_adds_nothing(
    cluster: TransactionalCluster, monkeypatch: pytest.MonkeyPatch, is_retry: bool
) -> None:
    run = Run("r", monkeypatch)
    zombie = run.attempt(0, 0)
    assert run.commit(0, run.tasks(0))
    if is_retry:
        assert run.commit(1, run.tasks(1))
    with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_FENCED"):
        for value in rows_of(9, 9):
            zombie.write(incoming_rows([("a", None, value, None, None, None)]))
        zombie.finish()
    assert cluster.committed("a") == all_rows(*range(1 + is_retry))
    assert cluster.open_ids() == []


def test_an_attempt_that_starts_after_its_batch_was_decided_is_aborted_with_the_next_batch(
    cluster: TransactionalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = Run("r", monkeypatch), Run("other", monkeypatch)
    assert run.commit(0, run.tasks(0))
    other.attempt(0, 0).finish()
    assert len(cluster.open_ids()) == 1
    assert run.commit(1, run.tasks(1))
    assert cluster.open_ids() == []
    assert cluster.committed("a") == all_rows(0, 1)


def test_a_batch_with_an_aborted_transaction_is_not_committed(
    cluster: TransactionalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run("r", monkeypatch)
    content = run.tasks(0)
    end_all(run.cluster, content.prepared[:1], is_commit=False)
    with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_FENCED"):
        run.commit(0, content)
    assert cluster.committed("a") == Counter()
    following = Run("next", monkeypatch)
    assert following.commit(0, following.tasks(0))
    assert cluster.committed("a") == all_rows(0)


def test_lost_rows_of_a_committed_batch_stop_the_query_unless_an_option_decides(
    cluster: TransactionalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run("r", monkeypatch)
    content = die_after_the_note(run, 0, monkeypatch)
    end_all(run.cluster, content.prepared[:1], is_commit=False)
    again = Run("again", monkeypatch)
    with pytest.raises(SourceError, match="KAFKA_SINK_ROWS_ABORTED"):
        again.commit(0, again.tasks(0))
    last = Run("last", monkeypatch)
    rules, origin = RULES._replace(on_difference="atleastonce"), BatchOrigin(SINK.query, 0, "last")
    assert commit_batch(last.cluster, SINK, origin, last.tasks(0), rules)
    assert cluster.committed("a").keys() == all_rows(0).keys()


def test_a_batch_without_rows_completes_what_an_earlier_run_had_noted(
    cluster: TransactionalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run("r", monkeypatch)
    die_after_the_note(run, 0, monkeypatch)
    again = Run("again", monkeypatch)
    with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_NOT_REPEATABLE"):
        again.commit(0, BatchContent(0))
    assert cluster.committed("a") == all_rows(0)
