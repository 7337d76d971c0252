"""Regular expressions sent by clients, in RE2 syntax as in Apache Kafka (KIP-848, KIP-1152). RE2 matches in linear
time; Python's `re` may take exponential time."""

from __future__ import annotations

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode

EXPRESSION_BYTES_MAX = 8 * 1024
PROGRAM_BYTES_MAX = 256 * 1024
"""Limit of memory of a compiled expression and its matching. It rejects nested repetitions, so that compilation takes
milliseconds. Matching a topic name may still take a hundred times as long as usual, so it runs in a thread: it releases
the GIL."""


class RegularExpression:
    """A compiled expression. Raises ApiError INVALID_REGULAR_EXPRESSION, with `subject` as the subject of its
    message."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str, subject: str = "The regular expression") -> None:
        import re2

        if len(text.encode()) > EXPRESSION_BYTES_MAX:
            raise _invalid(subject, f"it has over {EXPRESSION_BYTES_MAX} bytes")
        options = re2.Options()
        options.max_mem = PROGRAM_BYTES_MAX
        options.log_errors = False
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as problem:
            reason = problem.args[0] if problem.args else "it cannot be read"
            explanation = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            raise _invalid(subject, explanation) from problem

    def matches(self, text: str) -> bool:
        """Whether the expression matches all of `text`."""
        return self._compiled.fullmatch(text) is not None


def _invalid(subject: str, reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{subject} is not valid: {reason}.")
