"""Committed offsets, the ownership of partitions, and the right to commit: rules 17 and 20."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jepsen.checker.analysis import Analysis
from jepsen.checker.operations import FAIL, OK, Assigned, Commit, Committed, Owned, Partition, Said

Register = tuple[str, Partition]
NONE = -1


def committed_offsets(analysis: Analysis) -> Iterator[str]:
    """17: a group's offset is a register. A fetch returns the last commit, or one of unknown outcome, but never one
    that another commit has certainly replaced.

    A commit of unknown outcome may take effect at any time after it began. A commit that a fetch has returned had taken
    effect by then. A deposed coordinator may return old offsets, and so may any coordinator while a marker is still to
    be written.
    """
    writes: dict[Register, dict[int, list[Commit]]] = {}
    reads: dict[Register, list[Committed]] = {}
    for commit in analysis.history.of(Commit):
        writes.setdefault((commit.group, commit.place), {}).setdefault(commit.offset, []).append(commit)
    for read in analysis.history.of(Committed):
        if read.outcome == OK:
            reads.setdefault((read.group, read.place), []).append(read)
    for register, found in sorted(reads.items()):
        yield from _judge(register, found, writes.get(register, {}))


def _judge(register: Register, reads: list[Committed], writes: dict[int, list[Commit]]) -> Iterator[str]:
    group, (topic, partition) = register
    # Known to be effective by the first time; begun at the second.
    effective = [
        (write.ended, write.began, write.offset)
        for each in writes.values()
        for write in each
        if write.outcome == OK and write.ended is not None and not write.may_be_gone
    ]
    effective += [
        (read.ended, writes[read.offset][0].began, read.offset)
        for read in reads
        if read.offset in writes and read.ended is not None
    ]
    effective.sort()
    latest, due = (-math.inf, NONE), 0
    for read in sorted(reads, key=lambda each: each.began):
        while due < len(effective) and effective[due][0] < read.began:
            latest = max(latest, (effective[due][1], effective[due][2]))
            due += 1
        ended = _ended(writes.get(read.offset, []), read)
        if ended is None:
            yield (
                f"{group} is told at {read.began:.3f} that it committed {read.offset} of {topic}-{partition}, "
                "which nobody did"
            )
        elif ended < latest[0] and not (read.deposed or read.may_lag):
            yield f"{group} committed {latest[1]} of {topic}-{partition} and is told {read.offset} at {read.began:.3f}"


def _ended(writes: list[Commit], read: Committed) -> float | None:
    """The time from which no commit that `read` may have returned can still take effect; infinite if such a commit has
    an unknown outcome. None without such commits."""
    if read.offset == NONE:
        return -math.inf
    able = [write for write in writes if write.outcome != FAIL and (read.ended is None or write.began <= read.ended)]
    return max(
        (write.ended if write.outcome == OK and write.ended is not None else math.inf for write in able), default=None
    )


def one_decision_a_generation(analysis: Analysis) -> Iterator[str]:
    """17b: all members of a generation have their assignment from one decision of one leader."""
    decisions: dict[tuple[str, int], Assigned] = {}
    for assigned in analysis.history.of(Assigned):
        if assigned.outcome != OK:
            continue
        known = decisions.setdefault((assigned.group, assigned.generation), assigned)
        if (known.leader, known.decision) != (assigned.leader, assigned.decision):
            yield (
                f"{assigned.group} generation {assigned.generation}: {known.process} is assigned by "
                f"{known.decision}, {assigned.process} by {assigned.decision}"
            )


def zombie_members(analysis: Analysis) -> Iterator[str]:
    """20: once a member of a later generation has its assignment, no commit under an earlier generation succeeds."""
    arrivals: dict[str, list[tuple[float, int]]] = {}
    for assigned in analysis.history.of(Assigned):
        if assigned.outcome == OK and assigned.ended is not None:
            arrivals.setdefault(assigned.group, []).append((assigned.ended, assigned.generation))
    for commit in analysis.history.of(Commit):
        if commit.outcome != OK or commit.generation < 0:
            continue
        newest = max(
            (generation for ended, generation in arrivals.get(commit.group, ()) if ended < commit.began), default=-1
        )
        if newest > commit.generation:
            yield (
                f"{commit.process} commits in {commit.group} under generation {commit.generation} at "
                f"{commit.began:.3f}, after generation {newest} began"
            )


def one_owner_an_epoch(analysis: Analysis) -> Iterator[str]:
    """17c: in a KIP-848 group, no partition has two owners in one member epoch."""
    owners: dict[tuple[str, int, Partition], str] = {}
    for owned in analysis.history.of(Owned):
        for place in owned.partitions:
            owner = owners.setdefault((owned.group, owned.epoch, place), owned.member)
            if owner != owned.member:
                yield f"{owned.group}: {owner} and {owned.member} own {place[0]}-{place[1]} in epoch {owned.epoch}"


def zombie_owners(analysis: Analysis) -> Iterator[str]:
    """20c: once another member owns a partition under a later epoch, no commit for it under an earlier epoch succeeds,
    unless the member had revoked it and still has that epoch (`_gave_up_in_its_epoch`)."""
    arrivals: dict[Register, list[Owned]] = {}
    told: dict[tuple[str, str], list[Owned]] = {}
    said: dict[tuple[str, str], list[Said]] = {}
    for owned in analysis.history.of(Owned):
        told.setdefault((owned.group, owned.member), []).append(owned)
        for place in owned.partitions:
            arrivals.setdefault((owned.group, place), []).append(owned)
    for each in analysis.history.of(Said):
        said.setdefault((each.group, each.member), []).append(each)
    for commit in analysis.history.of(Commit):
        if commit.outcome != OK or not commit.member:
            continue
        who = commit.group, commit.member
        for owned in arrivals.get((commit.group, commit.place), ()):
            if owned.member == commit.member or owned.epoch <= commit.generation or not _is_before(owned, commit):
                continue
            if not _gave_up_in_its_epoch(told.get(who, []), said.get(who, []), owned, commit):
                yield (
                    f"{commit.member} commits {commit.topic}-{commit.partition} in {commit.group} under epoch "
                    f"{commit.generation} at {commit.began:.3f}, after {owned.member} owned it in {owned.epoch}"
                )
                break


def _gave_up_in_its_epoch(told: list[Owned], said: list[Said], owned: Owned, commit: Commit) -> bool:
    """Whether the member had reported in the epoch of its commit, before the next owner got the partition, that it no
    longer owns it, and has had no other epoch since.

    A member that has to revoke partitions keeps its epoch until it has done so, while other members take the partitions
    over. In its present epoch a member may commit for any partition, in Kafka too
    (`ConsumerGroup.validateOffsetCommit`).
    """
    heard = [(each.epoch, each.partitions) for each in told if _is_before(each, commit)][-1:]
    spoken = [(each.epoch, each.partitions) for each in said if owned.ended is not None and each.began < owned.ended]
    last = [*heard, *spoken[-1:]]
    return len(last) == 2 and all(epoch == commit.generation and commit.place not in has for epoch, has in last)


def _is_before(owned: Owned, commit: Commit) -> bool:
    return owned.ended is not None and owned.ended < commit.began


def zombie_producers(analysis: Analysis) -> Iterator[str]:
    """20b: once a partition has acknowledged a producer's epoch, it accepts nothing from an earlier epoch."""
    for partition in analysis.partitions.values():
        newest: dict[int, list[tuple[float, int]]] = {}
        for send in partition.acknowledged:
            if send.producer_id >= 0 and send.ended is not None:
                newest.setdefault(send.producer_id, []).append((send.ended, send.producer_epoch))
        for send in partition.sends:
            if send.values[0] not in partition.places:
                continue
            epoch = max((epoch for ended, epoch in newest.get(send.producer_id, ()) if ended < send.began), default=-1)
            if epoch > send.producer_epoch:
                yield (
                    f"{send.values[0]} of producer {send.producer_id} epoch {send.producer_epoch} is taken by "
                    f"{partition.name} after its epoch {epoch}"
                )
