"""The white-box rules: the states of the nodes themselves, where a harness can look inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jepsen.checker.analysis import Analysis
from jepsen.checker.operations import ImageState, Partition, QuorumState, Rebuilt, ReplicaContent, ReplicaState

NOBODY = -1


def one_leader_an_epoch(analysis: Analysis) -> Iterator[str]:
    """W1: no two nodes lead a partition, or the quorum, in the same epoch."""
    leaders: dict[tuple[Any, int], str] = {}
    for state in analysis.history.of(ReplicaState):
        if state.is_leader:
            known = leaders.setdefault((state.place, state.leader_epoch), state.process)
            if known != state.process:
                yield f"{known} and {state.process} lead {state.topic}-{state.partition} in epoch {state.leader_epoch}"
    for quorum in analysis.history.of(QuorumState):
        if quorum.is_leader:
            # What it had not synced, its next life does not have, and may not lead by.
            who = f"{quorum.process} in life {quorum.life}"
            known = leaders.setdefault(("quorum", quorum.epoch), who)
            if known != who:
                yield f"{known} and {who} lead the quorum in epoch {quorum.epoch}"


def nothing_falls(analysis: Analysis) -> Iterator[str]:
    """W2: in one life of a node no epoch and no log start offset falls. The high watermark does not fall within a
    leader epoch; that of the quorum never falls."""
    latest: dict[tuple[str, int, Partition], ReplicaState] = {}
    for state in analysis.history.of(ReplicaState):
        before = latest.get((state.process, state.life, state.place))
        latest[(state.process, state.life, state.place)] = state
        if before is None:
            continue
        for name in ("leader_epoch", "partition_epoch", "log_start", "high_watermark"):
            old, new = getattr(before, name), getattr(state, name)
            if new < old and not (
                name in ("high_watermark", "log_start") and before.leader_epoch != state.leader_epoch
            ):
                yield (
                    f"{name} of {state.topic}-{state.partition} on {state.process} falls from {old} to {new} at "
                    f"{state.began:.3f}"
                )
    quorums: dict[tuple[str, int], QuorumState] = {}
    for quorum in analysis.history.of(QuorumState):
        known = quorums.get((quorum.process, quorum.life))
        quorums[(quorum.process, quorum.life)] = quorum
        if known is not None and (quorum.epoch < known.epoch or quorum.high_watermark < known.high_watermark):
            yield (
                f"the quorum as {quorum.process} sees it falls from {known.epoch, known.high_watermark} to "
                f"{quorum.epoch, quorum.high_watermark}"
            )


def votes_are_kept(analysis: Analysis) -> Iterator[str]:
    """W8: through all lives of a node its epoch does not fall, and in one epoch it votes for one candidate and keeps
    that vote.

    The rule applies to the saved state. Newer state may be lost with the process while it waits for the disk, before
    any other node learns of it.
    """
    saved: dict[str, QuorumState] = {}
    for state in analysis.history.of(QuorumState):
        before = saved.get(state.process, state)
        if state.epoch < before.epoch:
            yield f"{state.process} was in quorum epoch {before.epoch}, and in {state.epoch} at {state.began:.3f}"
        elif state.epoch == before.epoch and before.voted != NOBODY and state.voted != before.voted:
            yield (
                f"{state.process} voted for {before.voted} in epoch {state.epoch}, and has {state.voted} at "
                f"{state.began:.3f}"
            )
        if state.saved:
            saved[state.process] = state


def committed_is_durable(analysis: Analysis) -> Iterator[str]:
    """W9: every committed metadata record is on the disks of a majority of the voters."""
    for state in analysis.history.of(QuorumState):
        if state.is_leader and 2 * state.holders <= state.voters and state.voters:
            yield (
                f"{state.process} at {state.began:.3f}: only {state.holders} of {state.voters} voters can have "
                f"{state.high_watermark} offsets on disk"
            )


def high_watermark_covered(analysis: Analysis) -> Iterator[str]:
    """W3: no high watermark ever seen is beyond the log end of a running in-sync replica, or beyond the end of its own
    log.

    The in-sync set is that of the newest leader ever seen: an older leader that is cut off may have the last replica of
    a deleted topic. Of this set only the members count that are in the newest record ever seen, too: a leader that is
    paused or cut off does not know which members have left since, and one may have come back on an empty disk.
    """
    moments: dict[tuple[float, Partition], list[ReplicaState]] = {}
    for state in analysis.history.of(ReplicaState):
        moments.setdefault((state.began, state.place), []).append(state)
        if not state.log_start <= state.high_watermark <= state.log_end:
            yield (
                f"{state.topic}-{state.partition} on {state.process}: {state.log_start} <= {state.high_watermark} "
                f"<= {state.log_end} does not hold"
            )
    committed: dict[Partition, int] = {}
    recorded: dict[Partition, ReplicaState] = {}
    for (at, place), states in moments.items():
        newest = recorded[place] = max(
            recorded.get(place, states[0]),
            *states,
            key=lambda state: (state.leader_epoch, state.partition_epoch, state.is_leader),
        )
        committed[place] = max(committed.get(place, 0), *(state.high_watermark for state in states))
        for leader in (state for state in states if state.is_leader and state.leader_epoch == newest.leader_epoch):
            in_sync = {str(member) for member in leader.isr if member in newest.isr}
            for state in states:
                if state.process in in_sync and state.log_end < committed[place]:
                    yield (
                        f"{place[0]}-{place[1]} at {at:.3f}: {committed[place]} records were committed, in-sync "
                        f"{state.process} ends at {state.log_end}"
                    )


def isr_as_recorded(analysis: Analysis) -> Iterator[str]:
    """W4: an in-sync set changes only by the controller's records, and these exclude a fenced broker, whose log is
    unknown (KIP-841, KIP-903)."""
    for state in analysis.history.of(ReplicaState):
        if state.isr_fenced:
            yield (
                f"{state.topic}-{state.partition} at {state.began:.3f}: {state.isr_fenced} are fenced and in "
                f"sync, in the metadata of {state.process}"
            )
        if state.is_leader and state.isr_recorded is not None and sorted(state.isr) != sorted(state.isr_recorded):
            yield (
                f"{state.topic}-{state.partition} on {state.process}: ISR {state.isr}, recorded is "
                f"{state.isr_recorded} in epoch {state.partition_epoch}"
            )


def images_agree(analysis: Analysis) -> Iterator[str]:
    """W5: metadata images at one offset are equal."""
    known: dict[int, ImageState] = {}
    for image in analysis.history.of(ImageState):
        first = known.setdefault(image.offset, image)
        if first.digest != image.digest:
            yield f"the metadata at offset {image.offset} differs between {first.process} and {image.process}"


def replicas_agree(analysis: Analysis) -> Iterator[str]:
    """W6: at quiescence replicas have the same batches, epochs and producers, and all records below the end offset that
    the final read received."""
    known: dict[Partition, ReplicaContent] = {}
    ends = {
        place: partition.final.end for place, partition in analysis.partitions.items() if partition.final is not None
    }
    for content in analysis.history.of(ReplicaContent):
        if content.end < ends.get(content.place, 0):
            yield (
                f"{content.topic}-{content.partition} on {content.process} ends at {content.end}, and was read up "
                f"to {ends[content.place]}"
            )
        first = known.setdefault(content.place, content)
        for name in ("start", "end", "batches", "epochs", "producers"):
            if getattr(first, name) != getattr(content, name):
                place = f"{content.topic}-{content.partition}"
                yield (
                    f"{name} of {place} differ: {getattr(first, name)} on {first.process}, "
                    f"{getattr(content, name)} on {content.process}"
                )


def rebuilt_states(analysis: Analysis) -> Iterator[str]:
    """W7: a state rebuilt from disk equals the state in memory."""
    for each in analysis.history.of(Rebuilt):
        if each.live != each.rebuilt:
            yield f"{each.what} on {each.process}: {each.live} lived, {each.rebuilt} is rebuilt from disk"
