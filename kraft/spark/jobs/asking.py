"""What a job asks a cluster beside what Spark does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kraft.common.errors import KraftError
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.running import JobFailed
from kraft.spark.wire import WireCluster

T = TypeVar("T")


def asked(at: Access, ask: Callable[[WireCluster], T], about: str = "") -> T:
    """What `ask` finds out. Raises JobFailed, which begins with `about`, when nobody answers, or in a way that is of
    no use."""
    try:
        cluster = WireCluster(at.bootstrap, security=at.security)
        try:
            return ask(cluster)
        finally:
            cluster.close()
    except (OSError, ValueError, KraftError) as problem:
        raise JobFailed(f"{about}{problem}") from problem


def ask_any(at: Access, request: Any, about: str = "") -> Any:
    """The answer of any broker. Raises JobFailed as `asked` does."""
    return asked(at, lambda cluster: cluster.any_call(request), about)
