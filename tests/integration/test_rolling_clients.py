"""How clients that work during a roll are stopped."""

from __future__ import annotations

import threading

from tests.integration.rolling_clients import Clients


def test_a_client_that_does_not_end_is_reported_with_the_stack_of_its_thread() -> None:
    released = threading.Event()
    clients = Clients("127.0.0.1:1")

    def commit_without_end() -> None:
        released.wait()

    threads: list[threading.Thread] = clients._readers
    clients.begin(commit_without_end, threads)
    try:
        clients.stop(0.1)
    finally:
        released.set()
    [problem] = clients.problems
    assert problem.startswith("a client has not ended 0.1 s after it was told to:")
    assert "in commit_without_end" in problem


def test_clients_that_end_when_a_stop_is_requested_are_not_reported() -> None:
    clients = Clients("127.0.0.1:1")
    clients.begin(clients.written.wait, clients._writers)  # type: ignore[arg-type]
    clients.begin(clients.ended.wait, clients._readers)  # type: ignore[arg-type]
    clients.stop(10)
    assert clients.problems == []
