"""Idempotent and transactional producers, as a partition remembers them."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError, CorruptData
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.control_record import ControlRecordType
from kraft.protocol.records.record_batch import SEQUENCE_MAX, batches
from kraft.storage.log_append import LogAppendInfo
from kraft.storage.log_config import LogConfig
from kraft.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot
from kraft.storage.producers.producer_state_entry import BatchMetadata, ProducerStateEntry
from kraft.storage.producers.verification import NOT_REQUIRED
from kraft.storage.unified_log import UnifiedLog
from tests.unit.storage.producers.producer_batches import end
from tests.unit.storage.support import DIRECTORY, NOW_MS, Machine, batch_of


@pytest.fixture
def log() -> UnifiedLog:
    return Machine().log()


def produce(
    log: UnifiedLog, sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 1, transactional: bool = False
) -> LogAppendInfo:
    options = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "is_transactional": transactional,
    }
    info = log.append_as_leader(batch_of(*[b"v"] * count, **options), 0, now_ms=NOW_MS, verification=NOT_REQUIRED)
    log.update_high_watermark(log.log_end_offset)
    return info


def refusal(*arguments: object, **options: object) -> int:
    with pytest.raises(ApiError) as caught:
        produce(*arguments, **options)  # type: ignore[arg-type]
    return caught.value.code


def test_a_duplicate_batch_is_answered_with_its_first_offset_and_not_appended(log: UnifiedLog) -> None:
    first = [produce(log, sequence * 2, 2) for sequence in range(7)]
    size = log.size
    for sequence in range(2, 7):
        again = produce(log, sequence * 2, 2)
        assert (again.duplicate, again.first_offset, again.last_offset) == (
            True,
            first[sequence].first_offset,
            first[sequence].last_offset,
        )
    assert log.size == size
    assert refusal(log, 2, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # the sixth last is forgotten


def test_a_sequence_gap_or_overlap_is_out_of_order(log: UnifiedLog) -> None:
    produce(log, 0, 3)
    assert refusal(log, 4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, 0, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not produce(log, 3).duplicate


def test_an_unknown_producer_may_start_at_any_sequence(log: UnifiedLog) -> None:
    assert produce(log, 77).first_offset == 0


def test_a_new_producer_epoch_starts_at_sequence_zero_and_fences_the_old_epoch(log: UnifiedLog) -> None:
    produce(log, 0, epoch=1)
    assert refusal(log, 5, epoch=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, 0, epoch=2)
    assert refusal(log, 1, epoch=1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_to_zero(log: UnifiedLog) -> None:
    produce(log, SEQUENCE_MAX - 1, 2)
    assert produce(log, 0).first_offset == 2
    assert produce(log, SEQUENCE_MAX - 1, 2).duplicate


def test_followers_accept_every_producer_batch_that_the_leader_accepted() -> None:
    leader, follower = Machine().log(), Machine().log()
    produce(leader, 5)
    leader.truncate_fully_and_start_at(3, NOW_MS)
    produce(leader, 9)
    follower.append_as_follower(leader.read(3, 10_000).read(), now_ms=NOW_MS)
    assert follower.producers.producers[1].last_sequence == 9


def test_idle_producers_expire_unless_a_transaction_is_open(log: UnifiedLog) -> None:
    produce(log, 0)
    produce(log, 0, producer_id=2, transactional=True)
    log.maybe_expire_producers(NOW_MS + 86_399_999)
    assert list(log.producers.producers) == [1, 2]
    log.maybe_expire_producers(NOW_MS + 86_400_000)
    assert list(log.producers.producers) == [2]


@pytest.mark.parametrize("clean", [True, False])
def test_producer_state_survives_a_restart(clean: bool) -> None:
    machine = Machine()
    log = machine.log(LogConfig(segment_bytes=300))
    for sequence in range(10):
        produce(log, sequence)
    if clean:
        log.close()
    machine.kill()
    log = machine.log(LogConfig(segment_bytes=300), clean=clean)
    for sequence in range(5, 10):
        again = produce(log, sequence)
        assert again.duplicate, "a client may have had five batches under way when the node stopped"
        assert again.first_offset == sequence
    assert produce(log, 10).first_offset == 10
    assert refusal(log, 12) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_damaged_producer_snapshot_is_rebuilt_from_the_log() -> None:
    machine = Machine()
    log = machine.log()
    for sequence in range(3):
        produce(log, sequence)
    log.close()
    path = f"{DIRECTORY}/00000000000000000003.snapshot"
    machine.files.open(path).pwrite(b"?", 20)
    log = machine.log(clean=True)
    assert produce(log, 2).duplicate
    assert "the CRC is wrong" in log.load_report.events[0]  # type: ignore[union-attr]


def test_truncation_rolls_back_producer_state(log: UnifiedLog) -> None:
    for sequence in range(5):
        produce(log, sequence)
    log.truncate_to(2, NOW_MS)
    again = produce(log, 2)
    assert not again.duplicate, "the batch that was appended as sequence 2 is gone"
    assert (again.first_offset, log.log_end_offset) == (2, 3)
    with pytest.raises(ApiError):
        produce(log, 4)


def test_producer_snapshots_take_46_bytes_per_producer_and_damage_is_detected() -> None:
    batches = (BatchMetadata(10, 20, 4, 99),)
    known = ProducerStateEntry(
        7, producer_epoch=2, coordinator_epoch=3, last_timestamp=99, current_transaction_first_offset=5, batches=batches
    )
    data = encode_snapshot([known, ProducerStateEntry(8)])
    assert len(data) == 10 + 2 * 46
    first, second = decode_snapshot("x", data)
    assert (
        first.producer_id,
        first.last_sequence,
        first.last_offset,
        first.last_offset_delta,
        first.current_transaction_first_offset,
    ) == (7, 10, 20, 4, 5)
    assert (second.producer_epoch, second.batches, second.current_transaction_first_offset) == (-1, (), None)
    for damaged in (data[:-1], data[:5], b"\x00\x02" + data[2:], data[:-1] + b"?"):
        with pytest.raises(CorruptData):
            decode_snapshot("x", damaged)


def test_a_producer_snapshot_holds_the_last_five_batches_and_kafka_can_read_its_last_entry() -> None:
    batches = tuple(BatchMetadata(sequence, 10 + sequence, 0, 90 + sequence) for sequence in range(5))
    known = ProducerStateEntry(
        7, producer_epoch=2, last_timestamp=94, current_transaction_first_offset=12, batches=batches
    )
    data = encode_snapshot([known, ProducerStateEntry(8)])
    assert len(data) == 10 + 6 * 46
    first, second = decode_snapshot("x", data)
    assert [(each.last_sequence, each.last_offset, each.timestamp) for each in first.batches] == [
        (each.last_sequence, each.last_offset, each.timestamp) for each in batches
    ]
    assert (first.current_transaction_first_offset, first.last_timestamp, second.producer_id) == (12, 94, 8)
    last = encode_snapshot([ProducerStateEntry(7, producer_epoch=2, last_timestamp=94, batches=batches[-1:])])
    assert data[10 + 4 * 46 :][: 46 - 8] == last[10:][: 46 - 8], "all but the transaction"
    (alone,) = decode_snapshot("x", last)
    assert alone.last_sequence == 4


def test_batches_of_an_older_producer_epoch_in_a_snapshot_are_ignored() -> None:
    older = ProducerStateEntry(7, producer_epoch=1, batches=(BatchMetadata(3, 3, 0, 1),))
    newer = ProducerStateEntry(7, producer_epoch=2, batches=(BatchMetadata(0, 4, 0, 1),))
    (entry,) = decode_snapshot("x", encode_snapshot([older, newer]))
    assert (entry.producer_epoch, [batch.last_sequence for batch in entry.batches]) == (2, [0])


def test_an_open_transaction_holds_the_last_stable_offset_until_its_marker_is_replicated(log: UnifiedLog) -> None:
    produce(log, 0, producer_id=9)
    produce(log, 0, 2, transactional=True)
    produce(log, 1, producer_id=9)
    assert (log.high_watermark, log.last_stable_offset) == (4, 1)
    assert refusal(log, 2) == ErrorCode.INVALID_TXN_STATE
    end(log, ControlRecordType.COMMIT)
    assert log.last_stable_offset == 1
    log.update_high_watermark(5)
    assert log.last_stable_offset == 5
    assert log.aborted_transactions(0, 5) == []


def test_aborted_transactions_are_reported_to_reads_that_overlap_them(log: UnifiedLog) -> None:
    produce(log, 0, transactional=True)
    produce(log, 0, producer_id=2, transactional=True)
    end(log, ControlRecordType.ABORT)
    end(log, ControlRecordType.ABORT, producer_id=2)
    produce(log, 1)
    found = log.aborted_transactions(0, 5)
    assert [(one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset) for one in found] == [
        (1, 0, 2, 1),
        (2, 1, 3, 4),
    ]
    assert [one.producer_id for one in log.aborted_transactions(3, 5)] == [2]
    assert [one.producer_id for one in log.aborted_transactions(0, 1)] == [1]


def test_open_and_aborted_transactions_survive_a_crash() -> None:
    machine = Machine()
    log = machine.log(LogConfig(segment_bytes=300))
    for round_number in range(6):
        produce(log, round_number, transactional=True)
        end(log, ControlRecordType.ABORT)
    produce(log, 6, transactional=True)
    before = [(one.first_offset, one.last_offset, one.last_stable_offset) for one in log.aborted_transactions(0, 99)]
    machine.kill()
    log = machine.log(LogConfig(segment_bytes=300))
    log.update_high_watermark(log.log_end_offset)
    assert [
        (one.first_offset, one.last_offset, one.last_stable_offset) for one in log.aborted_transactions(0, 99)
    ] == before
    assert log.last_stable_offset == 12


def test_markers_with_an_older_epoch_are_refused(log: UnifiedLog) -> None:
    produce(log, 0, epoch=3, transactional=True)
    end(log, ControlRecordType.COMMIT, epoch=3, coordinator_epoch=5)
    for code, options in (
        (ErrorCode.INVALID_PRODUCER_EPOCH, {"epoch": 2, "coordinator_epoch": 5}),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, {"epoch": 3, "coordinator_epoch": 4}),
    ):
        with pytest.raises(ApiError) as caught:
            end(log, ControlRecordType.COMMIT, **options)
        assert caught.value.code == code
    produce(log, 0, epoch=4, transactional=True)
    with pytest.raises(ApiError):
        end(log, ControlRecordType.COMMIT, epoch=4, coordinator_epoch=5, version=2)
    end(log, ControlRecordType.COMMIT, epoch=5, coordinator_epoch=5, version=2)
    end(log, ControlRecordType.COMMIT, epoch=5, coordinator_epoch=5, version=2)  # a retry of one that was written


@pytest.mark.parametrize(("version", "marker_epoch"), [(0, 3), (1, 3), (2, 4)])
def test_a_marker_sent_again_is_appended_only_once(log: UnifiedLog, version: int, marker_epoch: int) -> None:
    produce(log, 0, epoch=3, transactional=True)
    options = {"epoch": marker_epoch, "coordinator_epoch": 5, "version": version}
    sent = [end(log, ControlRecordType.COMMIT, **options) for _ in range(3)]
    assert [(info.duplicate, info.last_offset) for info in sent] == [(False, 1), (True, 1), (True, 1)]
    produce(log, 0, producer_id=2)
    again = end(log, ControlRecordType.COMMIT, **options)
    assert (again.duplicate, again.last_offset) == (True, 2), "committed with the end of the log"
    assert log.log_end_offset == 3


def test_a_marker_of_a_new_coordinator_epoch_is_appended_where_only_that_epoch_fences_the_former_one(
    log: UnifiedLog,
) -> None:
    produce(log, 0, transactional=True)
    end(log, ControlRecordType.COMMIT, coordinator_epoch=5)
    assert not end(log, ControlRecordType.COMMIT, coordinator_epoch=6).duplicate
    produce(log, 1, transactional=True)
    with pytest.raises(ApiError) as caught:
        end(log, ControlRecordType.COMMIT, coordinator_epoch=5)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    # From version 2 on the producer's epoch keeps the former coordinator's marker from the next transaction.
    end(log, ControlRecordType.COMMIT, epoch=1, coordinator_epoch=6, version=2)
    assert end(log, ControlRecordType.COMMIT, epoch=1, coordinator_epoch=7, version=2).duplicate
    produce(log, 0, epoch=1, transactional=True)
    with pytest.raises(ApiError) as caught:
        end(log, ControlRecordType.COMMIT, epoch=1, coordinator_epoch=6, version=2)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_fencing_marker_is_appended_though_no_transaction_is_open(log: UnifiedLog) -> None:
    produce(log, 0, transactional=True)
    end(log, ControlRecordType.COMMIT)
    assert not end(log, ControlRecordType.ABORT, epoch=1).duplicate
    assert refusal(log, 1, transactional=True) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert not end(log, ControlRecordType.ABORT, producer_id=9).duplicate, "a producer that is not known here"


@pytest.mark.parametrize(("version", "code"), [(0, ErrorCode.INVALID_TXN_STATE), (2, None)])
def test_a_marker_sent_again_cancels_a_pending_verification_of_the_ended_transaction(
    log: UnifiedLog, version: int, code: int | None
) -> None:
    produce(log, 0, transactional=True)
    epoch = 1 if version == 2 else 0
    end(log, ControlRecordType.COMMIT, epoch=epoch, version=version)
    verification = log.producers.start_verification(1, epoch, 1 - epoch, NOW_MS, implicit=False)
    assert end(log, ControlRecordType.COMMIT, epoch=epoch, version=version).duplicate
    options = {"producer_id": 1, "producer_epoch": epoch, "base_sequence": 1 - epoch, "is_transactional": True}
    late = batch_of(b"v", **options)
    if code is None:
        assert log.append_as_leader(late, 0, now_ms=NOW_MS, verification=verification).last_offset == 2
        return
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(late, 0, now_ms=NOW_MS, verification=verification)
    assert caught.value.code == code


def test_a_marker_keeps_the_verification_of_the_next_transactions_first_write(log: UnifiedLog) -> None:
    """At level 2 the client may write as soon as its commit is answered, before the markers are there."""
    produce(log, 0, transactional=True)
    verification = log.producers.start_verification(1, 1, 0, NOW_MS, implicit=True)
    end(log, ControlRecordType.COMMIT, epoch=1, version=2)
    early = batch_of(b"v", producer_id=1, producer_epoch=1, base_sequence=0, is_transactional=True)
    assert log.append_as_leader(early, 0, now_ms=NOW_MS, verification=verification).last_offset == 2


def test_the_last_producer_epoch_ends_its_own_transaction(log: UnifiedLog) -> None:
    produce(log, 0, epoch=32767, transactional=True)
    for duplicate in (False, True):
        assert end(log, ControlRecordType.ABORT, epoch=32767, version=2).duplicate == duplicate


def test_a_fetch_gets_only_the_aborted_transactions_that_may_overlap_it() -> None:
    log = Machine().log(LogConfig(index_interval_bytes=0))
    for sequence in range(50):
        produce(log, sequence, transactional=True)
        end(log, ControlRecordType.ABORT)
    log.update_high_watermark(log.log_end_offset)
    assert len(log.aborted_transactions(0, log.last_stable_offset)) == 50
    part = log.read(20, 500, max_offset=log.last_stable_offset)
    told = [each.first_offset for each in log.aborted_transactions(20, log.last_stable_offset, part)]
    fetched = [each.base_offset for each in batches(part.read(), partial_tail=True) if not each.is_control]
    assert told[: len(fetched)] == fetched
    assert len(told) <= len(fetched) + 1
    whole = log.read(20, 1 << 20, max_offset=log.last_stable_offset)
    assert len(log.aborted_transactions(20, log.last_stable_offset, whole)) == 40


def test_offsets_below_the_high_watermark_stay_stable_after_a_truncation(log: UnifiedLog) -> None:
    produce(log, 0, transactional=True)
    end(log, ControlRecordType.COMMIT)
    log.update_high_watermark(2)
    log.append_as_leader(batch_of(b"cut"), 0, now_ms=NOW_MS)
    log.truncate_to(2, NOW_MS)
    assert log.last_stable_offset == 2
