"""What jobs ask clusters."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from kraft.spark.jobs import cluster_requests
from kraft.spark.jobs.running import JobFailed


def test_an_unanswered_admin_request_fails_the_job_with_an_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_requests, "SECONDS_MAX", 0)
    with pytest.raises(JobFailed, match="topic t: the cluster has not answered for 0 s"):
        cluster_requests.answered(Future[None](), "topic t")
