"""`kraft share` and what `kraft groups` says of share groups, answered by a scripted cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from kraft.admin.offsets import EARLIEST, LATEST
from kraft.cli.admin.app import _with_verbs, main
from kraft.cli.admin.cluster import share, top
from kraft.cli.admin.completion import offer_names
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from kraft.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kraft.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from kraft.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribedGroup as DescribedClassicGroup
from kraft.protocol.messages.describe_groups_response import DescribeGroupsResponse
from kraft.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from kraft.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from kraft.protocol.messages.list_offsets_request import ListOffsetsRequest
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup
from kraft.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kraft.protocol.messages.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from tests.unit.cli.admin.asked import asker
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster


def offsets_at_times(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Every log begins at 10 and ends at 50. The first record since any time has offset 40."""
    offsets = {EARLIEST: 10, LATEST: 50}
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, offset=offsets.get(each.timestamp, 40)
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


class Coordinators:
    """Answers of a cluster with the share group `jobs` and the classic group `etl`. Records what it was asked to
    change."""

    def __init__(self) -> None:
        self.code: int = ErrorCode.NONE
        """Of every answer about the share group."""
        self.changes: list[Any] = []

    async def answer(self, request: Any, node_id: int | None) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(
                coordinators=[Coordinator(key=key, node_id=1, host="h", port=1) for key in request.coordinator_keys]
            )
        if isinstance(request, ListGroupsRequest):
            return ListGroupsResponse(
                groups=[
                    ListedGroup(group_id="etl", group_state="Empty", group_type="classic", protocol_type="consumer"),
                    ListedGroup(group_id="jobs", group_state="Stable", group_type="Share", protocol_type="share"),
                ]
                if node_id == 1
                else []
            )
        if isinstance(request, ListOffsetsRequest):
            return offsets_at_times(request)
        if isinstance(request, ShareGroupDescribeRequest):
            return ShareGroupDescribeResponse(groups=[self._described(each) for each in request.group_ids])
        if isinstance(request, DescribeShareGroupOffsetsRequest):
            return DescribeShareGroupOffsetsResponse(groups=[self._offsets(each.group_id) for each in request.groups])
        if isinstance(request, DescribeGroupsRequest):
            none = ErrorCode.GROUP_ID_NOT_FOUND
            return DescribeGroupsResponse(
                groups=[DescribedClassicGroup(group_id=each, error_code=none) for each in request.groups]
            )
        if isinstance(request, OffsetFetchRequest):
            none = ErrorCode.GROUP_ID_NOT_FOUND
            return OffsetFetchResponse(
                groups=[OffsetFetchResponseGroup(group_id=each.group_id, error_code=none) for each in request.groups]
            )
        self.changes.append(request)
        return self._changed(request)

    def _refusal(self, group_id: str) -> tuple[int, str | None]:
        if group_id == "jobs":
            return self.code, None
        what = "is not a share group" if group_id == "etl" else "not found"
        return ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}."

    def _described(self, group_id: str) -> DescribedGroup:
        code, message = self._refusal(group_id)
        if code:
            return DescribedGroup(group_id=group_id, error_code=code, error_message=message)
        assignment = Assignment(topic_partitions=[TopicPartitions(topic_name="t", partitions=[1, 0])])
        member = Member(
            member_id="m", client_id="c", client_host="/h", subscribed_topic_names=["t"], assignment=assignment
        )
        return DescribedGroup(
            group_id=group_id, group_state="Stable", group_epoch=3, assignment_epoch=3, members=[member]
        )

    def _offsets(self, group_id: str) -> DescribeShareGroupOffsetsResponseGroup:
        code, message = self._refusal(group_id)
        group = DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=code, error_message=message)
        if not code:
            parts = [
                DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=20, lag=7),
                DescribeShareGroupOffsetsResponsePartition(partition_index=1, start_offset=-1),
            ]
            group.topics = [DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=parts)]
        return group

    def _changed(self, request: Any) -> Any:
        if isinstance(request, AlterShareGroupOffsetsRequest):
            parts = [
                AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index)
                for each in request.topics[0].partitions
            ]
            topic = AlterShareGroupOffsetsResponseTopic(topic_name="t", partitions=parts)
            return AlterShareGroupOffsetsResponse(error_code=self.code, responses=[] if self.code else [topic])
        if isinstance(request, DeleteShareGroupOffsetsRequest):
            topics = [
                DeleteShareGroupOffsetsResponseTopic(topic_name=each.topic_name, error_code=self.code)
                for each in request.topics
            ]
            return DeleteShareGroupOffsetsResponse(responses=topics)
        assert isinstance(request, DeleteGroupsRequest)
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=each, error_code=self.code) for each in request.groups_names]
        )


@pytest.fixture
def coordinators(monkeypatch: pytest.MonkeyPatch) -> Coordinators:
    """Answers the commands' questions."""
    answers = Coordinators()

    async def versions(_cluster: ScriptedCluster, _node_id: int) -> dict[int, tuple[int, int]]:
        return {}

    async def version_of(_cluster: ScriptedCluster, _key: int, *, node_id: int | None = None) -> int:
        return 9

    monkeypatch.setattr(ScriptedCluster, "versions", versions)
    monkeypatch.setattr(ScriptedCluster, "version_of", version_of)
    ask = asker({"t": [1, 2]}, answers.answer)
    monkeypatch.setattr("kraft.cli.admin.cluster.share.ask", ask)
    monkeypatch.setattr("kraft.cli.admin.cluster.groups.ask", ask)
    return answers


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    written = capsys.readouterr()
    return code, written.out, written.err


def test_share_list_shows_share_groups_only(coordinators: Coordinators, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "share", "list", "-o", "json")
    assert (code, json.loads(out)) == (0, {"groups": [{"group_id": "jobs", "state": "Stable", "coordinator": 1}]})


def test_share_describe_shows_state_members_start_offsets_and_lag(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "share", "describe", "jobs", "-o", "json")
    [group] = json.loads(out)["groups"]
    assert (code, group["state"], group["epoch"], group["total_lag"]) == (0, "Stable", 3, 7)
    assert group["offsets"] == [
        {"topic": "t", "partition": 0, "start_offset": 20, "lag": 7},
        {"topic": "t", "partition": 1, "start_offset": None, "lag": None},
    ]
    [member] = group["members"]
    assert [(each["topic"], each["partition"]) for each in member["partitions"]] == [("t", 0), ("t", 1)]


@pytest.mark.parametrize(
    ("option", "columns", "shown"),
    [
        ("--state", "GROUP STATE", {"members": False, "offsets": False}),
        ("--members", "GROUP CLIENT", {"members": True, "offsets": False}),
        ("--offsets", "GROUP TOPIC", {"members": False, "offsets": True}),
    ],
)
def test_an_option_of_share_describe_chooses_what_is_shown(
    coordinators: Coordinators,
    capsys: pytest.CaptureFixture[str],
    option: str,
    columns: str,
    shown: dict[str, bool],
) -> None:
    _, out, _ = run(capsys, "share", "describe", "jobs", option)
    assert (out.replace("\t", " ").startswith(columns), out.count("GROUP")) == (True, 1)
    _, out, _ = run(capsys, "share", "describe", "--all-groups", option, "-o", "json")
    [group] = json.loads(out)["groups"]
    assert {key: group[key] is not None for key in shown} == shown


@pytest.mark.parametrize("words", ["describe", "describe jobs --all-groups"])
def test_share_describe_needs_either_names_or_all_groups(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    assert run(capsys, "share", *words.split())[0] == 2


def test_while_share_groups_are_off_the_error_names_the_feature(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str]
) -> None:
    coordinators.code = ErrorCode.UNSUPPORTED_VERSION
    for words in (
        "describe jobs",
        "delete jobs --yes",
        "offsets reset jobs -t t --to-latest",
        "offsets delete jobs -t t --yes",
    ):
        code, out, err = run(capsys, "share", *words.split())
        assert (code, out, "`kraft features upgrade share.version=1`" in err) == (1, "", True), words


@pytest.mark.parametrize("words", ["describe etl", "delete etl --yes", "offsets reset etl -t t --to-latest"])
def test_a_classic_group_is_not_found_as_a_share_group(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    code, out, err = run(capsys, "share", *words.split())
    assert (code, out, "Group etl is not a share group." in err) == (3, "", True)
    assert coordinators.changes == []


@pytest.mark.parametrize(
    ("target", "after"),
    [
        ("--to-earliest", 10),
        ("--to-latest", 50),
        ("--to-datetime=2026-01-31", 40),
        ("--to-offset=30", 30),
        ("--to-offset=9", 10),
        ("--to-offset=99", 50),
    ],
)
def test_a_reset_of_start_offsets_is_previewed_and_executed(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str], target: str, after: int
) -> None:
    for options in ([], ["--dry-run"]):
        code, out, err = run(capsys, "share", "offsets", "reset", "jobs", target, *options)
        rows = [line.split("\t") for line in out.splitlines()[1:]]
        assert (code, rows) == (0, [["t", "0", "20", str(after)], ["t", "1", "-", str(after)]])
        assert ("preview" in err, coordinators.changes) == (True, [])
    code, out, err = run(capsys, "share", "offsets", "reset", "jobs", "-t", "t:1", target, "--execute", "-o", "json")
    [altered] = coordinators.changes
    sent = [(each.partition_index, each.start_offset) for each in altered.topics[0].partitions]
    assert (code, err, sent, json.loads(out)["executed"]) == (0, "", [(1, after)], True)


def test_a_reset_creates_a_share_group_only_for_named_topics(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "share", "offsets", "reset", "new", "-t", "t:0", "--to-latest")
    assert (code, out.splitlines()[1]) == (0, "t\t0\t-\t50")
    assert run(capsys, "share", "offsets", "reset", "new", "--to-latest")[0] == 3


@pytest.mark.parametrize(
    "words",
    [
        "offsets reset jobs",
        "offsets reset jobs --to-latest --to-earliest",
        "offsets reset jobs --to-datetime never",
        "offsets reset jobs --to-latest --execute --dry-run",
        "offsets delete jobs --yes",
        "offsets delete jobs -t t:0 --yes",
        "offsets delete jobs -t t",
        "delete jobs",
    ],
)
def test_wrong_usage_of_share_commands_changes_nothing(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    assert (run(capsys, "share", *words.split())[0], coordinators.changes) == (2, [])


def test_changes_of_a_share_group_with_members_are_refused_with_a_hint(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Coordinators, "_refusal", lambda *_: (ErrorCode.NONE, None))
    coordinators.code = ErrorCode.NON_EMPTY_GROUP
    for words in (
        "delete jobs --yes",
        "offsets reset jobs --to-latest --execute",
        "offsets delete jobs -t t --yes",
    ):
        code, out, err = run(capsys, "share", *words.split())
        assert (code, out, "`kraft share describe`" in err) == (1, "", True), words


def test_share_groups_and_start_offsets_are_deleted(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "share", "offsets", "delete", "jobs", "-t", "t", "--yes")
    assert out == "deleted the start offsets of jobs for t\n"
    code, out, _ = run(capsys, "share", "delete", "jobs", "none", "--yes", "-o", "json")
    assert (code, json.loads(out)["deleted"], list(json.loads(out)["failed"])) == (3, ["jobs"], ["none"])
    states, group = coordinators.changes
    assert ([each.topic_name for each in states.topics], group.groups_names) == (["t"], ["jobs"])


def test_start_offsets_that_a_share_group_does_not_have_are_reported(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "share", "offsets", "delete", "jobs", "-t", "t", "-t", "u", "--yes")
    assert (code, out, coordinators.changes) == (3, "", [])
    assert err == "kraft: group jobs has no start offsets for u\n  hint: it has for t\n"


def test_groups_list_shows_the_type_of_share_groups(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "groups", "list")
    assert out.splitlines()[2].split("\t") == ["jobs", "Stable", "Share", "share"]


@pytest.mark.parametrize(
    "words",
    ["describe jobs", "export jobs", "reset-offsets jobs -t t --to-latest", "delete-offsets jobs -t t --yes"],
)
def test_groups_commands_for_a_share_group_name_the_command_that_shows_it(
    coordinators: Coordinators, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    code, out, err = run(capsys, "groups", *words.split())
    assert (code, out) == (3, "")
    assert "group jobs: it is a share group, which `kraft share describe jobs` shows" in err
    assert "share group" not in run(capsys, "groups", "describe", "none")[2]


@pytest.fixture
def asked(coordinators: Coordinators, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups whose committed offsets are requested."""
    names: list[str] = []

    async def committed_offsets(_cluster: object, group_id: str) -> dict[Any, Any]:
        names.append(group_id)
        return {}

    monkeypatch.setattr("kraft.admin.groups.committed_offsets", committed_offsets)
    return names


def test_all_groups_of_groups_export_leaves_out_share_groups(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "groups", "export", "--all-groups")[0] == 0
    assert asked == ["etl"]


def test_top_requests_no_committed_offsets_of_share_groups(asked: list[str], coordinators: Coordinators) -> None:
    asker({"t": [1, 2]}, coordinators.answer)("", 1.0, top._look)
    assert asked == ["etl"]


def test_completion_of_share_commands_offers_share_groups_only(coordinators: Coordinators) -> None:
    command = typer.main.get_command(share.app)
    offers = [verb for verb in _with_verbs(command) if any(each.metavar == "GROUP" for each in verb.params)]
    assert len(offers) == 2, "offsets reset and offsets delete"
    for verb in offers:
        offer_names("share", verb)
        [parameter] = [each for each in verb.params if each.metavar == "GROUP"]
        [names] = parameter.shell_complete.args
        assert asker({}, coordinators.answer)("", 1.0, names) == ["jobs"]
