"""What a job asks a cluster beside what Spark does."""

from __future__ import annotations

from typing import Any

from kraft.common.errors import KraftError
from kraft.spark.jobs.running import JobFailed
from kraft.spark.wire import WireCluster


def ask_any(bootstrap: str, request: Any, about: str = "") -> Any:
    """The answer of any broker. Raises JobFailed, which begins with `about`, when nobody answers."""
    try:
        cluster = WireCluster(bootstrap)
        try:
            return cluster.any_call(request)
        finally:
            cluster.close()
    except (OSError, ValueError, KraftError) as problem:
        raise JobFailed(f"{about}{problem}") from problem
