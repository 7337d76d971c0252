"""What jobs ask clusters."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from kraft.spark.jobs import asking
from kraft.spark.jobs.running import JobFailed


def test_an_admin_request_that_is_not_answered_ends_the_job_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "SECONDS_MAX", 0)
    with pytest.raises(JobFailed, match="topic t: the cluster has not answered for 0 s"):
        asking.answered(Future[None](), "topic t")
