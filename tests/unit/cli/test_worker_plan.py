"""Which nodes `kraft-node --workers N` starts."""

from __future__ import annotations

import pytest

from kraft.cli.options import parse_command_line
from kraft.cli.worker_plan import Worker, plan_workers
from kraft.common.errors import ConfigurationError


def planned(count: int, *arguments: str, cluster_id: str = "") -> tuple[Worker, ...]:
    invocation = parse_command_line(["--workers", str(count), *arguments])
    command = ("--workers", str(count), *arguments)
    return plan_workers(count, command, dict(invocation.options), invocation.sets, "box", cluster_id).workers


def problems(count: int, *arguments: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        planned(count, *arguments)
    return list(raised.value.problems)


def text(worker: Worker, option: str) -> str | None:
    """The text of an option; each is given once."""
    found = [after for before, after in zip(worker.arguments, worker.arguments[1:], strict=False) if before == option]
    assert len(found) <= 1 or option == "--set"
    return found[0] if found else None


def test_ids_ports_and_directories_count_up_and_the_first_three_workers_are_the_quorum() -> None:
    workers = planned(5, "--listen", "0.0.0.0:9092", "--data-dir", "/a,/b", cluster_id="ID")
    assert [each.node_id for each in workers] == [1, 2, 3, 4, 5]
    assert [each.is_controller for each in workers] == [True, True, True, False, False]
    assert [text(each, "--listen") for each in workers] == [f"0.0.0.0:{9092 + index}" for index in range(5)]
    assert text(workers[4], "--data-dir") == "/a/worker-5,/b/worker-5"
    assert {text(each, "--voters") for each in workers} == {"1@127.0.0.1:10092,2@127.0.0.1:10093,3@127.0.0.1:10094"}
    assert [text(each, "--controller-listen") for each in workers[2:]] == ["0.0.0.0:10094", None, None]
    assert [text(each, "--role") for each in workers[2:]] == [None, "broker", "broker"]
    assert [text(each, "--admin") for each in workers[:2]] == ["127.0.0.1:9644", "off"]
    assert {text(each, "--cluster-id") for each in workers} == {"ID"}


@pytest.mark.parametrize("count", [1, 2])
def test_of_one_or_two_workers_the_first_is_the_quorum(count: int) -> None:
    workers = planned(count)
    assert [each.is_controller for each in workers] == [True, False][:count]
    assert "offsets.topic.replication.factor=" + str(count) in workers[0].arguments


def test_the_machine_is_the_rack_unless_a_rack_is_given() -> None:
    assert "broker.rack=box" in planned(2)[1].arguments
    arguments = planned(2, "--set", "broker.rack=a7", "--set=num.partitions=4")[1].arguments
    assert ("broker.rack=box" in arguments, "broker.rack=a7" in arguments) == (False, True)
    assert "--set=num.partitions=4" in arguments or "num.partitions=4" in arguments


def test_of_a_quorum_over_several_machines_the_named_workers_are_controllers() -> None:
    voters = "1@a:9,4@b:9,7@c:9"
    workers = planned(3, "--node-id", "4", "--voters", voters, "--controller-listen", "0.0.0.0:10500")
    assert [(each.node_id, each.is_controller) for each in workers] == [(4, True), (5, False), (6, False)]
    assert {text(each, "--voters") for each in workers} == {voters}
    assert text(workers[0], "--controller-listen") == "0.0.0.0:10500"
    assert not any(argument.startswith("offsets.topic") for argument in workers[0].arguments)


def test_with_an_external_quorum_all_workers_are_brokers() -> None:
    workers = planned(2, "--bootstrap-controllers", "a:1,b:1")
    assert [text(each, "--role") for each in workers] == ["broker", "broker"]
    assert [text(each, "--bootstrap-controllers") for each in workers] == ["a:1,b:1"] * 2
    assert [text(each, "--voters") for each in workers] == [None, None]


def test_advertised_ports_count_up() -> None:
    given = "advertised.listeners=PLAINTEXT://kafka.example.org:9092,SSL://kafka.example.org:19092"
    worker = planned(3, "--set", given)[2]
    assert [each for each in worker.arguments if each.startswith("advertised")] == [
        "advertised.listeners=PLAINTEXT://kafka.example.org:9094,SSL://kafka.example.org:19094"
    ]


def test_other_options_are_passed_unchanged_to_all_workers() -> None:
    for worker in planned(2, "--config", "a.properties", "--log-level=debug", "--listen=127.0.0.1:7000"):
        assert ("--config", "a.properties") in zip(worker.arguments, worker.arguments[1:], strict=False)
        assert "--log-level=debug" in worker.arguments
        assert "--listen=127.0.0.1:7000" not in worker.arguments


@pytest.mark.parametrize(
    ("count", "arguments", "said"),
    [
        (0, (), "0 is not from 1 to 64"),
        (65, (), "65 is not from 1 to 64"),
        (2, ("--set", "log.dirs=/x"), "--set log.dirs is for one node"),
        (2, ("--listen", "127.0.0.1:0"), "a port below 65472 that is not 0"),
        (2, ("--node-id", "x"), "--node-id: 'x' is not a number"),
        (4, ("--controller-listen", "127.0.0.1:9094"), "ports from 9094 on overlap those of --listen, from 9092 on"),
        (2, ("--voters", "a:1"), "'a:1' is not ID@HOST:PORT"),
        (2, ("--set", "advertised.listeners=PLAINTEXT://a"), "has no port"),
    ],
)
def test_an_impossible_worker_plan_is_reported(count: int, arguments: tuple[str, ...], said: str) -> None:
    assert any(said in problem for problem in problems(count, *arguments))
