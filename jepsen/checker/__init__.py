"""One history format and one checker, for simulated clusters and for real processes.

The input is a `History`: the operations of clients and the observations of nodes, in any order. It is stored as JSON
lines (`history.write_lines`, `history.read_lines`). The result is a list of findings, each with the broken rule and a
sentence. Everything here is pure: no clock, no file, no product code.

A harness adds one operation for each request when the request begins, so that unanswered requests are in the history
too, and completes it when the request ends. Times are seconds of one clock that all clients share. An outcome is OK,
FAIL (it certainly had no effect, see `errors.is_definite`) or INFO (unknown).
"""

from jepsen.checker.check import Finding, check

__all__ = ["Finding", "check"]
