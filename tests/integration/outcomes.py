"""What a command of `kraft` printed, and how it left."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """Tab-separated lines under the header."""
        return [line.split("\t") for line in self.out.splitlines()[1:]]


Kraft = Callable[..., Outcome]


def until_equal(ask: Callable[[], Any], wanted: Any) -> None:
    """A change is seen once the broker has read it in the metadata log."""
    deadline = time.monotonic() + 30
    while (found := ask()) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
