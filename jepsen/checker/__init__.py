"""One history format and one checker, for simulated clusters and for real processes.

What enters: a `History`, the operations of clients and the observations of nodes, in any order; it travels as JSON
lines (`history.write_lines`, `history.read_lines`). What leaves: findings, each with the rule that was broken and a
sentence. Everything here is pure: no clock, no file, no product code.

A harness makes one operation a request - when it begins, so that those which nobody answers are in the history too -
and fills in how it ended. Times are seconds of one clock that all clients share. An outcome is OK, FAIL (it
certainly had no effect: `errors.is_definite` tells) or INFO (unknown).
"""

from jepsen.checker.check import Finding, check

__all__ = ["Finding", "check"]
