"""Moves under a throttle on four nodes, asked for over HTTP: how far they are is seen, they are cancelled, and they go
on when the node that was asked is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jepsen.three_nodes import until
from kraft.cli.admin.app import main
from tests.integration.throttled import LOAD, PARTITIONS, RECORD_BYTES, RECORDS, TOPIC, AdminCluster, controller, fill

SLOW, FAST = 150_000, 1 << 30


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminCluster]:
    with AdminCluster(tmp_path_factory.mktemp("four"), nodes=4, admin=True) as cluster:
        cluster.asked = controller(cluster)
        cluster.leaver, *others = [node for node in cluster.nodes if node != cluster.asked]
        # Nothing goes to the node that is asked, which is killed: it holds most.
        cluster.create(LOAD, {str(index): [cluster.asked] for index in range(10)})
        cluster.create(TOPIC, {str(index): [cluster.leaver, others[0]] for index in range(PARTITIONS)})
        fill(cluster)
        yield cluster


def test_any_node_shows_cancels_and_finishes_a_decommissioning(four: AdminCluster) -> None:
    before = four.replicas(four.asked)
    other = next(node for node in four.nodes if node not in (four.asked, four.leaver))
    leave = f"/v1/brokers/{four.leaver}/decommission"
    assert four.progress(other)["phase"] == "idle"
    begun = four.call(four.asked, "PUT", leave, {"bytes_per_second": SLOW})
    assert begun.status_code == 202, begun.text
    assert begun.json()["decommission"]["blocked"] == []

    seen = until(lambda: moving(four, four.asked), "nothing moves")
    assert {each["bytes_per_second"] for each in seen["throttle"]["brokers"]} == {SLOW}
    assert len(seen["throttle"]["brokers"]) == 4
    assert TOPIC in seen["throttle"]["topics"]
    assert seen["remaining_seconds"] > 1
    less = until(lambda: further(four, four.asked, seen["bytes_left"]), "no progress is seen")
    assert less["bytes_per_second"] > 0
    assert less["remaining_seconds"] > 0
    refused = four.call(four.asked, "DELETE", "/v1/reassignments/throttle")
    assert (refused.status_code, "being moved" in refused.json()["detail"]) == (409, True)

    four.kill([four.asked])
    told = until(lambda: moving(four, other), "another node does not tell")
    assert [each["partition_id"] for each in told["data"]] == [each["partition_id"] for each in less["data"]]
    assert all(four.leaver in each["removing"] for each in told["data"])
    assert until(lambda: four.call(other, "DELETE", f"{leave}?cancel_moves=true").status_code == 200, "no controller")
    until(lambda: four.progress(other)["phase"] == "idle", "the throttle stays, or moves do")
    assert four.replicas(other) == before
    until(lambda: not four.throttled_keys(other), "keys of the throttle stay")

    four.start([four.asked])
    until(lambda: not four.throttled_keys(four.asked), "the node that was down kept its rates")
    assert four.call(four.asked, "PUT", leave, {"bytes_per_second": FAST}).status_code == 202
    until(lambda: four.progress(other)["phase"] == "remove_throttle", "the moves do not end")
    assert "throttle is still set: remove it" in four.progress(four.asked)["detail"]
    assert four.get(other, f"/v1/brokers/{four.leaver}")["replicas_count"] == 0
    assert len(four.throttled_keys(other)) == 10
    assert four.call(other, "DELETE", "/v1/reassignments/throttle").status_code == 204
    until(lambda: four.progress(four.asked)["phase"] == "idle", "the throttle stays")
    until(lambda: not four.throttled_keys(other), "keys of the throttle stay")
    assert four.call(other, "DELETE", leave).status_code == 200


def test_a_rebalance_is_proposed_with_its_bytes_throttled_and_given_another_rate(four: AdminCluster) -> None:
    wish = {"topics": [{"topic": TOPIC}], "bytes_per_second": 9}
    plan = four.call(four.asked, "POST", "/v1/reassignments/plan", wish)
    proposed = plan.json()
    assert proposed["replicas_count"] == sum(each["replicas_count"] for each in proposed["arrivals"]) > 0
    assert proposed["size_bytes"] >= proposed["replicas_count"] * RECORDS * RECORD_BYTES
    assert proposed["estimated_seconds"] > proposed["size_bytes"] / 9 / proposed["replicas_count"] - 1
    path = f"/v1/reassignments?bytes_per_second={SLOW}"
    assert four.call(four.asked, "POST", path, proposed["proposed"]).json()["ok"]
    until(lambda: moving(four, four.asked), "nothing moves")
    assert four.call(four.leaver, "PUT", "/v1/reassignments/throttle", {"bytes_per_second": FAST}).status_code == 204
    until(lambda: four.progress(four.leaver)["phase"] == "remove_throttle", "the faster rate is not followed")
    assert four.call(four.leaver, "DELETE", "/v1/reassignments/throttle").status_code == 204
    until(lambda: not four.throttled_keys(four.asked), "keys of the throttle stay")
    wanted = {each["partition"]: sorted(each["replicas"]) for each in proposed["proposed"]["partitions"]}
    assert {index: four.replicas(four.asked)[index] for index in wanted} == wanted


def test_moves_that_are_all_rejected_leave_no_throttle(four: AdminCluster) -> None:
    file = {"partitions": [{"topic": TOPIC, "partition": 0, "replicas": [99]}]}
    assert four.call(four.asked, "POST", "/v1/reassignments?bytes_per_second=1000", file).status_code == 207
    until(lambda: four.progress(four.asked)["phase"] == "idle", "a throttle stays")


def test_the_command_line_starts_shows_and_cancels_throttled_moves(
    four: AdminCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = four.replicas(four.asked)
    [target, *_] = {*four.nodes} - {*before[0]}
    file = tmp_path / "moves.json"
    place = {"topic": TOPIC, "partition": 0, "replicas": [before[0][0], target]}
    file.write_text(json.dumps({"version": 1, "partitions": [place]}))

    def run(*words: str) -> Any:
        capsys.readouterr()
        assert main([*words, "--bootstrap-server", four.bootstrap, "-o", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    run("reassignments", "start", str(file), "--throttle", "1000")
    [move] = run("reassignments", "list")["reassignments"]
    assert (move["adding"], move["removing"]) == ([target], [before[0][1]])
    assert until(lambda: run("reassignments", "list")["reassignments"][0]["bytes_left"], "no size is told")
    assert run("reassignments", "throttle", "2000") == {"bytes_per_second": 2000}
    wanted = [{"node_id": node, "bytes_per_second": 2000} for node in four.nodes]
    until(lambda: run("reassignments", "throttle")["throttle"]["brokers"] == wanted, "the rate stays")
    assert TOPIC in run("reassignments", "throttle")["throttle"]["topics"]
    run("reassignments", "cancel", "--keep-throttle")
    until(lambda: run("reassignments", "list")["reassignments"] == [], "the move goes on")
    capsys.readouterr()
    assert main(["reassignments", "list", "--bootstrap-server", four.bootstrap]) == 0
    assert "a throttle is still set: remove it with kraft reassignments throttle --remove" in capsys.readouterr().err
    assert run("reassignments", "throttle", "--remove") == {"bytes_per_second": None}
    until(lambda: run("reassignments", "throttle")["throttle"] is None, "the throttle stays")
    assert four.replicas(four.asked) == before

    leaver = str(before[0][0])
    assert run("brokers", "decommission", leaver, "--yes", "--throttle", "1000")["replicas_left"] > 0
    until(lambda: moving(four, four.asked), "nothing moves")
    assert not run("brokers", "decommission", leaver, "--cancel", "--cancel-moves")["decommissioning"]
    until(lambda: four.progress(four.asked)["phase"] == "idle", "the throttle stays, or moves do")
    until(lambda: not four.throttled_keys(four.asked), "keys of the throttle stay")


def test_a_move_to_a_stopped_broker_reports_that_trouble(
    four: AdminCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = four.replicas(four.asked)
    target = min({*four.nodes} - {*before[0], four.asked})
    place = {"topic": TOPIC, "partition": 0, "replicas": [before[0][0], target]}
    path = "/v1/reassignments?bytes_per_second=1"
    assert four.call(four.asked, "POST", path, {"partitions": [place]}).json()["ok"]
    told = until(lambda: [each["troubles"] for each in four.progress(four.asked)["data"]], "nothing moves")
    until(
        lambda: "days for what it has" in str(four.progress(four.asked)["data"]), f"the throttle is no trouble: {told}"
    )
    capsys.readouterr()
    assert main(["reassignments", "list", "--bootstrap-server", four.bootstrap]) == 0
    assert f"kraft: {TOPIC}-0: At its throttle of 1 bytes a second broker {target} needs" in capsys.readouterr().err
    four.kill([target])
    down = f"Broker {target} is fenced or down: start it, or cancel the move."
    until(lambda: [each["troubles"] for each in four.progress(four.asked)["data"]] == [[down]], "no trouble is told")
    four.start([target])
    assert main(["reassignments", "cancel", "--bootstrap-server", four.bootstrap]) == 0
    until(lambda: four.progress(four.asked)["phase"] == "idle", "the move goes on")


def moving(four: AdminCluster, node: int) -> Any:
    """The progress once all partitions move and sizes are known; None before."""
    told = four.progress(node)
    return told if told["count"] and not told["unsized_count"] and told["phase"] == "moving" else None


def further(four: AdminCluster, node: int, left: int) -> Any:
    told = four.progress(node)
    return told if told["bytes_per_second"] and told["bytes_left"] < left else None
