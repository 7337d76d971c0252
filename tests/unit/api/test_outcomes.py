"""What became of the transactions whose records a reader is shown."""

from __future__ import annotations

from kraft_http.requests.outcomes import Outcome, TransactionalBatch, Transactions

TRANSACTIONS = 1000


class Counted(int):
    """An offset that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) > int(other)


def test_finding_transaction_outcomes_does_not_compare_each_record_with_each_marker() -> None:
    ends = [Outcome.ABORTED if number % 3 else Outcome.COMMITTED for number in range(TRANSACTIONS)]
    transactions = Transactions(markers={7: [(Counted(2 * number + 1), end) for number, end in enumerate(ends)]})
    assert [transactions.outcome(TransactionalBatch(2 * number, 7)) for number in range(TRANSACTIONS)] == ends
    assert Counted.compared < 20 * TRANSACTIONS
    assert transactions.outcome(TransactionalBatch(2 * TRANSACTIONS, 7)) is Outcome.UNDECIDED
