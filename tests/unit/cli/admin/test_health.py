"""Facts that `kraft cluster health` makes of what Kafka's protocol tells."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kraft_http.health.health import ClusterHealth, judge, voter_facts
from kraft_http.health.health_findings import Reason
from kraft_http.health.reason_codes import REASON_CODES
from kraft_http.ports import BrokerFacts, ClusterFacts
from typer.testing import CliRunner

from kraft.admin.group_lags import GroupLag
from kraft.admin.groups import ListedGroup
from kraft.admin.metadata import Partition, Topic
from kraft.admin.share_groups import ShareGroup, ShareMember
from kraft.cli.admin.cluster import doctor, health
from kraft.cli.admin.cluster.cluster import app, without
from kraft.cli.admin.cluster.health import impaired_partitions, minima_of
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kraft.world.simulated import Universe
from tests.tidy.source import ROOT
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster


def topic(*partitions: tuple[int, tuple[int, ...], tuple[int, ...]]) -> Topic:
    """Of (leader, replicas, in sync)."""
    held = [
        Partition(index, leader, 0, replicas, in_sync, ())
        for index, (leader, replicas, in_sync) in enumerate(partitions)
    ]
    return Topic("t", bytes(16), False, tuple(held))


def codes(*partitions: tuple[int, tuple[int, ...], tuple[int, ...]], minimum: int = 1) -> list[str]:
    facts = ClusterFacts(
        controller_id=1,
        controller_epoch=1,
        voters=(1,),
        brokers=(BrokerFacts(node_id=3, host="", port=0),),
        topics_count=1,
        partitions_count=len(partitions),
        impaired=tuple(impaired_partitions([topic(*partitions)], {"t": minimum})),
    )
    return [reason.code for reason in judge(facts).reasons]


def test_partitions_that_are_leaderless_under_min_isr_or_under_replicated_are_reported() -> None:
    assert codes((1, (1, 2, 3), (1, 2, 3))) == []
    whole = (1, (1, 2, 3), (1, 2, 3))
    assert codes(whole, (1, (1, 2), (1,)), minimum=2) == ["under_min_isr_partitions", "under_replicated_partitions"]
    assert codes((1, (1, 2), (1,))) == ["under_replicated_partitions"]
    assert codes((-1, (1,), (1,)), minimum=3) == ["leaderless_partitions"]


def test_a_lagging_voter_is_found_by_the_clock_of_the_leader() -> None:
    voters = [(1, 50, 100_000), (2, 50, 99_000), (3, 20, 90_000), (4, 0, -1)]
    found = voter_facts(voters, 1, now_ms=500_000)
    assert [(voter.lag, voter.behind_ms, voter.is_current) for voter in found] == [
        (0, 0, True),
        (0, 1_000, True),
        (30, 10_000, False),
        (50, -1, False),
    ]


def test_a_topic_deleted_meanwhile_does_not_block_the_verdict() -> None:
    asked = []

    async def answer(request: Any, _: int | None) -> DescribeConfigsResponse:
        asked.append([each.resource_name for each in request.resources])
        told = [DescribeConfigsResourceResult(name="min.insync.replicas", value="2")]
        gone = DescribeConfigsResult(resource_name="gone", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return DescribeConfigsResponse(results=[gone, DescribeConfigsResult(resource_name="t", configs=told)])

    async def main(universe: Universe) -> None:
        assert await minima_of(ScriptedCluster(universe, {}, answer), ["gone", "t"]) == {"t": 2}

    Universe(1).run(main)
    assert asked == [["gone", "t"]]


def test_an_unreadable_verdict_of_another_release_is_computed_locally(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(_: object) -> dict[str, Any]:
        return {"is_healthy": "nearly"}

    async def judged(_: object) -> str:
        return "judged here"

    monkeypatch.setattr(health.status, "cluster_health", told)
    monkeypatch.setattr(health, "_judged_here", judged)

    async def main(universe: Universe) -> None:
        assert await health.cluster_health(ScriptedCluster(universe, {}, told)) == "judged here"

    Universe(1).run(main)


def test_doctor_reports_the_warnings_of_the_health_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(universe: Universe) -> None:
        async def nothing(*_: object) -> Any:
            raise AssertionError("nobody is asked")

        stuck = Reason(code="group_member_stuck", summary="Group g: m stands still.", remedy="Look at its log.")
        broken = Reason(code="no_controller", summary="There is no controller.", remedy="Start one.")

        async def verdict(_: object) -> ClusterHealth:
            return ClusterHealth.model_construct(is_healthy=not reasons, reasons=reasons, warnings=[stuck])

        monkeypatch.setattr(health, "cluster_health", verdict)
        cluster, tried = ScriptedCluster(universe, {}, nothing), doctor.Tried([], [])
        reasons: list[Reason] = []
        well, note = await doctor._health(cluster, tried, 1.0)
        assert (well.result, note) == (doctor.OK, doctor.Finding("health", doctor.NOTE, stuck.summary, stuck.remedy))
        reasons = [broken]
        assert [(each.result, each.summary) for each in await doctor._health(cluster, tried, 1.0)] == [
            (doctor.FAULT, broken.summary),
            (doctor.NOTE, stuck.summary),
        ]

    Universe(1).run(main)


def share_lag(group_id: str, members: int, total: int | None) -> GroupLag:
    member = ShareMember(
        member_id="m", rack_id=None, client_id="c", host="h", epoch=1, subscribed_topics=("t",), assignment=()
    )
    group = ShareGroup(
        group_id=group_id,
        state="Stable" if members else "Empty",
        assignor="simple",
        coordinator=1,
        epoch=1,
        assignment_epoch=1,
        members=(member,) * members,
    )
    return GroupLag(group=group, topics=("t",), total=total, worst=None)


def listed_share_group(group_id: str) -> ListedGroup:
    return ListedGroup(group_id=group_id, protocol_type="share", state="Empty", type="share", coordinator=1)


def test_doctor_names_share_groups_whose_records_wait_without_members() -> None:
    lags = [share_lag("gone", 0, 5), share_lag("done", 0, 0), share_lag("busy", 2, 9), share_lag("new", 0, None)]
    listed = [listed_share_group(each.group.group_id) for each in lags]
    whole = topic((1, (1, 2), (1, 2)))
    [found] = doctor.judge_share_groups(listed, lags, whole, are_on=True)
    assert (found.result, found.summary) == (doctor.NOTE, "records wait in share groups without members: gone")
    [found] = doctor.judge_share_groups(listed, lags[1:], whole, are_on=True)
    assert (found.result, found.summary) == (doctor.OK, "all 4 share groups are served")


def test_doctor_reports_an_under_replicated_topic_of_share_states() -> None:
    states = topic((1, (1, 2), (1,)), (2, (2, 1), (2, 1)))
    [found] = doctor.judge_share_groups([listed_share_group("g")], [], states, are_on=True)
    assert (found.result, "1 partitions of __share_group_state" in found.summary) == (doctor.FAULT, True)


def test_doctor_reports_share_groups_while_share_groups_are_off() -> None:
    [found] = doctor.judge_share_groups([listed_share_group("g")], [], None, are_on=False)
    assert (found.result, found.remedy) == (doctor.FAULT, "kraft features upgrade share.version=1")
    assert "clients of the share groups g get UNSUPPORTED_VERSION" in found.summary


def streams_group(group_id: str, state: str) -> ListedGroup:
    return ListedGroup(group_id=group_id, protocol_type="streams", state=state, type="streams", coordinator=1)


def test_doctor_names_streams_groups_that_wait_for_topics() -> None:
    listed = [streams_group("words", "NotReady"), streams_group("other", "Stable")]
    [found] = doctor.judge_streams_groups(listed, are_on=True)
    assert (found.result, "cannot run their topology: words" in found.summary) == (doctor.FAULT, True)
    [found] = doctor.judge_streams_groups(listed[1:], are_on=True)
    assert (found.result, found.summary) == (doctor.OK, "all 1 streams groups are served")


def test_doctor_reports_streams_groups_while_streams_groups_are_off() -> None:
    [found] = doctor.judge_streams_groups([streams_group("words", "Empty")], are_on=False)
    assert (found.result, found.remedy) == (doctor.FAULT, "kraft features upgrade streams.version=1")
    assert "members of the streams groups words get UNSUPPORTED_VERSION" in found.summary


def test_every_reason_code_is_listed() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "api" / "kraft_http" / "health").glob("*.py")
    )
    written = set(re.findall(r'code="([a-z_]+)"(?: if [a-z_ <0]+ else "([a-z_]+)")?', sources))
    found = {code for pair in written for code in pair if code and not code.startswith("group_member_")}
    found |= set(re.findall(r'"([a-z_]+_partitions)",\n', sources))
    assert found == set(REASON_CODES)


def test_excepted_reasons_do_not_count() -> None:
    reasons = [{"code": code, "summary": code, "remedy": "r"} for code in ("certificate_ends", "brokers_down")]
    document = {"is_healthy": False, "reasons": reasons, "warnings": []}
    one = without(document, ["certificate_ends"])
    assert (one["is_healthy"], one["reasons"], one["excepted"]) == (False, reasons[1:], reasons[:1])
    both = without(document, ["certificate_ends", "brokers_down"])
    assert (both["is_healthy"], both["reasons"], both["excepted"]) == (True, [], reasons)


def test_a_code_that_no_reason_has_is_rejected() -> None:
    result = CliRunner().invoke(app, ["health", "--except", "certificate_end"])
    assert result.exit_code == 2
    assert "'certificate_end' is not one of authorizers_differ" in " ".join(result.output.replace("│", "").split())
