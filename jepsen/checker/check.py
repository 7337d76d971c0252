"""All rules over one history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from jepsen.checker.analysis import Analysis
from jepsen.checker.history import History
from jepsen.checker.rules import access, content, ends, groups, order, progress, shares, transactions, white_box

FINDINGS_MAX = 20  # Of one rule; one defect breaks most of its promises many times.

RULES: Final[dict[str, Callable[[Analysis], Iterator[str]]]] = {
    "1 inconsistent offset": content.inconsistent_offsets,
    "2 duplicate": content.duplicates,
    "2b wrong acknowledged offset": content.wrong_acknowledged_offset,
    "3 lost write": content.lost_writes,
    "3b vanished": content.vanished,
    "4 unseen write": content.unseen_writes,
    "4b hole": content.holes,
    "6 phantom": content.phantoms,
    "6b torn batch": content.torn_batches,
    "11 poll inside": order.polls_inside,
    "12 poll sequence": order.polls_in_sequence,
    "13 send sequence": order.sends_in_sequence,
    "14 real-time inversion": order.real_time_inversions,
    "15 stale tail": ends.stale_tails,
    "16 regressing end": ends.regressing_ends,
    "16b log start too far": content.log_start_too_far,
    "17 committed offset": groups.committed_offsets,
    "17b one decision": groups.one_decision_a_generation,
    "17c one owner": groups.one_owner_an_epoch,
    "20 zombie member": groups.zombie_members,
    "20c zombie owner": groups.zombie_owners,
    "20b zombie producer": groups.zombie_producers,
    "21 definite error that was not": content.definite_errors_that_were_not,
    "21b offset given twice": content.offsets_given_twice,
    "22 stuck": progress.stuck,
    "23 unexpected": progress.unexpected,
    "24 topic": progress.topics,
    "25 compaction": progress.compaction,
    "26 half a transaction": transactions.half_transactions,
    "27 offset apart from records": transactions.offsets_apart,
    "28 let in": access.let_in,
    "29 served too early": access.served_too_early,
    "30 read before it was committed": transactions.early_reads,
    "30b told before it was committed": transactions.early_positions,
    "31 delivered when finished": shares.delivered_when_finished,
    "31b delivered too often": shares.delivered_too_often,
    "31c two holders": shares.two_holders,
    "31d never finished": shares.never_finished,
    "31e delivered what failed": shares.delivered_what_failed,
    "31f start goes back": shares.start_goes_back,
    "W1 one leader": white_box.one_leader_an_epoch,
    "W2 nothing falls": white_box.nothing_falls,
    "W3 high watermark": white_box.high_watermark_covered,
    "W4 ISR": white_box.isr_as_recorded,
    "W5 images": white_box.images_agree,
    "W6 replicas": white_box.replicas_agree,
    "W7 rebuilt": white_box.rebuilt_states,
    "W8 votes": white_box.votes_are_kept,
    "W9 committed": white_box.committed_is_durable,
}


class Finding(NamedTuple):
    """A broken rule, and a sentence that says how the history breaks it."""

    rule: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.sentence}"


def check(history: History) -> list[Finding]:
    """Return all findings in the history, at most `FINDINGS_MAX` for each rule."""
    analysis = Analysis(history)
    return [
        Finding(name, sentence) for name, rule in RULES.items() for sentence in islice(rule(analysis), FINDINGS_MAX)
    ]
