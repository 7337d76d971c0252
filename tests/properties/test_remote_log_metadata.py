"""The cache of remote log metadata says what a list of segments says that is searched from end to end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.metadata_serde import RemoteLogMetadataRecord, decode_metadata, encode_metadata
from kraft.remote.segment_metadata import ABANDONED, RemoteLogSegmentMetadata, RemoteLogSegmentState
from tests.unit.remote.support import DELETED, DELETING, FINISHED, STARTED, segment, uuid

OFFSETS = 14
EPOCHS = 4
IDS = 6
FOLLOWS = {
    None: (STARTED,),
    STARTED: (STARTED, FINISHED, DELETING),
    FINISHED: (FINISHED, DELETING),
    DELETING: (DELETING, DELETED),
}


@dataclass
class Begin:
    segment: RemoteLogSegmentMetadata


@dataclass
class Update:
    number: int
    state: RemoteLogSegmentState
    gives_up: bool


@st.composite
def begins(draw: st.DrawFn) -> Begin:
    first = draw(st.integers(0, OFFSETS - 1))
    last = draw(st.integers(first, OFFSETS - 1))
    chosen = draw(st.lists(st.integers(0, EPOCHS - 1), min_size=1, max_size=3, unique=True))
    starts = sorted(draw(st.lists(st.integers(first, last), min_size=len(chosen) - 1, max_size=len(chosen) - 1)))
    epochs = dict(zip(sorted(chosen), [first, *starts], strict=True))
    return Begin(segment(draw(st.integers(1, IDS)), first, last, epochs))


UPDATES = st.builds(
    Update,
    number=st.integers(1, IDS),
    state=st.sampled_from((FINISHED, FINISHED, FINISHED, DELETING, DELETED)),
    gives_up=st.booleans(),
)


class Model:
    """Segments and what they are in, with no index."""

    def __init__(self) -> None:
        self.segments: dict[int, RemoteLogSegmentMetadata] = {}
        self.states: dict[int, RemoteLogSegmentState] = {}
        self.highest: dict[int, int] = {}

    def begin(self, new: RemoteLogSegmentMetadata) -> bool:
        number = new.segment_id[-1]
        if STARTED not in FOLLOWS[self.states.get(number)]:
            return False
        self.segments[number], self.states[number] = new, STARTED
        return True

    def update(self, number: int, state: RemoteLogSegmentState, gives_up: bool) -> bool:
        known = self.states.get(number)
        if known is None or state not in FOLLOWS[known] or (gives_up and known == FINISHED):
            return False
        self.states[number] = state
        if state == DELETED:
            del self.segments[number], self.states[number]
        elif state == FINISHED:
            for epoch in range(EPOCHS):
                for offset in range(OFFSETS):
                    if self.has(number, epoch, offset):
                        self.highest[epoch] = max(offset, self.highest.get(epoch, -1))
        return True

    def has(self, number: int, epoch: int, offset: int) -> bool:
        """Whether the segment's epoch at that offset is this one."""
        known = self.segments[number]
        writers = [each for each, start in known.leader_epochs if start <= offset <= known.last_offset]
        return bool(writers) and writers[-1] == epoch

    def finished_with(self, epoch: int, offset: int) -> set[int]:
        return {each for each, state in self.states.items() if state == FINISHED and self.has(each, epoch, offset)}


def compare(cache: RemoteLogMetadataCache, model: Model) -> None:
    assert {(each.segment_id[-1], each.state) for each in cache.segments()} == set(model.states.items())
    for epoch in range(EPOCHS):
        listed = [(each.start_offset, each.segment_id[-1]) for each in cache.segments_of_epoch(epoch)]
        assert sorted(listed) == sorted(
            (each.start_offset, number) for number, each in model.segments.items() if epoch in dict(each.leader_epochs)
        )
        assert [start for start, _ in listed] == sorted(start for start, _ in listed)
        assert cache.highest_offset_for_epoch(epoch) == model.highest.get(epoch)
        ranges = list(cache.ranges_of_epoch(epoch))
        assert all(left[0].start_offset < right[0].start_offset for left, right in pairwise(ranges))
        having = [bool(model.finished_with(epoch, offset)) for offset in range(OFFSETS + 1)]
        for offset in range(OFFSETS):
            run = having.index(False, offset) - 1 if having[offset] else None
            assert cache.covered_last(epoch, offset) == run, (epoch, offset)
            first = next((each for each in range(offset, OFFSETS) if having[each]), None)
            assert cache.next_covered(epoch, offset) == first, (epoch, offset)
        for offset in range(OFFSETS + 1):
            found, having_it = cache.remote_log_segment_metadata(epoch, offset), model.finished_with(epoch, offset)
            assert (found is not None) == bool(having_it), (epoch, offset)
            assert found is None or found.segment_id[-1] in having_it, (epoch, offset)
            assert bool(having_it) == any(each.start_offset <= offset <= each.last_offset for each, _ in ranges)


@st.composite
def copies(draw: st.DrawFn) -> list[Begin | Update]:
    """A copy that begins, and most often is finished at once."""
    begin = draw(begins())
    finish = Update(begin.segment.segment_id[-1], FINISHED, False)
    return [begin] if draw(st.integers(0, 4)) == 0 else [begin, finish]


@st.composite
def deletions(draw: st.DrawFn) -> list[Begin | Update]:
    number = draw(st.integers(1, IDS))
    states = draw(st.sampled_from(((DELETING,), (DELETING, DELETED), (DELETING, FINISHED))))
    return [Update(number, state, False) for state in states]


SINGLE_UPDATES = UPDATES.map(lambda update: [update])
EVENTS = st.lists(st.one_of(copies(), copies(), deletions(), SINGLE_UPDATES), min_size=5, max_size=20)


@settings(max_examples=300)
@given(EVENTS)
def test_the_remote_metadata_cache_finds_the_same_segments_as_a_full_scan(events: list[list[Begin | Update]]) -> None:
    cache, model = RemoteLogMetadataCache(), Model()
    for event in (each for pair in events for each in pair):
        if isinstance(event, Begin):
            record: RemoteLogMetadataRecord = event.segment.to_record()
            takes = model.begin(event.segment)
        else:
            gives_up = event.gives_up and event.state == DELETING
            record = segment(event.number, 0, 0).state_update(
                event.state, broker_id=1, now_ms=0, custom_metadata=ABANDONED if gives_up else None
            )
            takes = model.update(event.number, event.state, gives_up)
        assert cache.replay(decode_metadata(encode_metadata(record))) == takes
        compare(cache, model)
    assert all((cache.get(uuid(number)) is not None) == (number in model.states) for number in range(1, IDS + 1))
