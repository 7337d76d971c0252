"""Requests of a job to a cluster outside its Spark query."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from kraft.common.errors import KraftError
from kraft.spark.client.wire import WireCluster
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.running import JobFailed

T = TypeVar("T")

SECONDS_MAX: Final = 30
"""The timeout of a call of the admin client."""


def answered(answer: Future[T], about: str) -> T:
    """Return the result of a call to librdkafka's admin client. Raises KafkaException, or JobFailed after a timeout.
    The message of JobFailed starts with `about`."""
    try:
        return answer.result(SECONDS_MAX)
    except TimeoutError as problem:
        raise JobFailed(f"{about}: the cluster has not answered for {SECONDS_MAX} s") from problem


def asked(at: Access, ask: Callable[[WireCluster], T], about: str = "") -> T:
    """Return the result of `ask`. Raises JobFailed if no broker responds, or the response is unusable. The message
    starts with `about`."""
    try:
        cluster = WireCluster(at.bootstrap, security=at.security)
        try:
            return ask(cluster)
        finally:
            cluster.close()
    except (OSError, ValueError, KraftError) as problem:
        raise JobFailed(f"{about}{problem}") from problem


def ask_any(at: Access, request: Any, about: str = "") -> Any:
    """Return the response of any broker. Raises JobFailed as `asked` does."""
    return asked(at, lambda cluster: cluster.any_call(request), about)
