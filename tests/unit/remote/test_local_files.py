"""What is copied of a segment is what lies on the disk of it, with the state of producers at its end."""

from __future__ import annotations

from kraft.remote.copy_decisions import segments_to_copy
from kraft.remote.local_files import contents_of, facts_of
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.object_names import LEADER_EPOCHS_SUFFIX
from kraft.storage.leader_epoch_cache import parse_leader_epochs
from kraft.storage.producers.producer_snapshot import decode_snapshot
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import FilePart
from tests.unit.remote.local_store import roll
from tests.unit.storage.recovery.transactional_log import produce, write
from tests.unit.storage.support import DIRECTORY, NOW_MS, Machine, batch_of


def written(machine: Machine) -> UnifiedLog:
    """Three segments: transactions in epoch 0; plain records of the epochs 0 and 2; an active one of epoch 3."""
    log = machine.log()
    write(log)
    roll(log)
    log.append_as_leader(batch_of(b"a", b"b", timestamp=NOW_MS), 0, now_ms=NOW_MS)
    log.append_as_leader(batch_of(b"c", timestamp=NOW_MS + 50), 2, now_ms=NOW_MS)
    roll(log)
    log.append_as_leader(batch_of(b"z"), 3, now_ms=NOW_MS)
    return log


def test_the_facts_match_the_log() -> None:
    log = written(Machine())
    facts = facts_of(log)
    assert [(each.base_offset, each.end_offset) for each in facts.segments] == [(0, 6), (6, 9), (9, 10)]
    assert [each.size for each in facts.segments] == [each.size for each in log.segments]
    assert facts.segments[1].timestamp_ms == NOW_MS + 50
    assert facts.leader_epochs == ((0, 0), (2, 8), (3, 9))
    assert (facts.log_start_offset, facts.last_stable_offset, facts.log_end_offset) == (0, 9, 10)


def test_every_file_is_copied_with_its_whole_length() -> None:
    machine = Machine()
    log = written(machine)
    for copied in segments_to_copy(facts_of(log), RemoteLogMetadataCache()):
        contents = contents_of(log, copied)
        assert [suffix for suffix, content in contents.items() if isinstance(content, bytes)] == [LEADER_EPOCHS_SUFFIX]
        for suffix, content in contents.items():
            if isinstance(content, FilePart):
                at = copied.end_offset if suffix == ".snapshot" else copied.base_offset
                assert content == (path := f"{DIRECTORY}/{at:020}{suffix}", machine.files.status(path).size)
        assert (".txnindex" in contents) == (copied.base_offset == 0)


def test_the_epochs_of_a_copy_end_with_the_segment() -> None:
    log = written(Machine())
    texts = [contents_of(log, each)[".leader-epoch-checkpoint"] for each in facts_of(log).segments[:2]]
    assert [parse_leader_epochs("", bytes(text).decode()).entries for text in texts if isinstance(text, bytes)] == [
        ((0, 0),),
        ((0, 0), (2, 8)),
    ]


def test_a_log_without_producers_has_an_empty_snapshot() -> None:
    log = Machine().log()
    log.append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    roll(log)
    log.producers.remove_snapshot(1)
    content = contents_of(log, facts_of(log).segments[0])[".snapshot"]
    assert isinstance(content, bytes)
    assert decode_snapshot("", content) == []


def test_a_lost_snapshot_is_rebuilt_unchanged() -> None:
    """A replica that begins with the copy would take what is aborted later for committed, did it not know of the
    transaction that is open here."""
    machine = Machine()
    log = machine.log()
    write(log)
    produce(log, 3)
    roll(log)
    path = log.producers.path_of(log.log_end_offset)
    before = machine.files.open(path).pread(10_000, 0)
    log.producers.remove_snapshot(log.log_end_offset)
    content = contents_of(log, facts_of(log).segments[0])[".snapshot"]
    assert isinstance(content, FilePart)
    assert machine.files.open(content.path).pread(10_000, 0) == before
    assert any(each.current_transaction_first_offset == 6 for each in decode_snapshot("", before))
