"""Regular expressions of clients: RE2's, as Apache Kafka takes them (KIP-848, KIP-1152). Matching takes time in
proportion to the text, whatever the expression; Python's `re` can take for ever."""

from __future__ import annotations

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode

EXPRESSION_BYTES_MAX = 8 * 1024
PROGRAM_BYTES_MAX = 1024 * 1024
"""What a compiled expression and its matching may take of memory. Repetitions of repetitions are refused by it."""


class RegularExpression:
    """Raises ApiError INVALID_REGULAR_EXPRESSION."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        import re2

        if len(text.encode()) > EXPRESSION_BYTES_MAX:
            raise _invalid(f"it has over {EXPRESSION_BYTES_MAX} bytes")
        options = re2.Options()
        options.max_mem = PROGRAM_BYTES_MAX
        options.log_errors = False
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as problem:
            reason = problem.args[0] if problem.args else "it cannot be read"
            raise _invalid(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from problem

    def matches(self, text: str) -> bool:
        """Whether all of `text` is what the expression describes."""
        return self._compiled.fullmatch(text) is not None


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"The regular expression is not valid: {reason}.")
