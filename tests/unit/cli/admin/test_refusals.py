"""What is wrong is refused before anything is done, and what is no failure does not leave as one."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import trio
import typer

from kraft.admin.cluster import describe_log_dirs
from kraft.admin.errors import Refused
from kraft.admin.moves import Outcome
from kraft.cli.admin.app import main
from kraft.cli.admin.cluster import http_api
from kraft.cli.admin.cluster.reassignments import read_file, show_outcomes
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from kraft.rpc_client.errors import DeadlinePassed
from kraft.world.simulated import Universe
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("replicas", ['"12"', "5", "[]", '["x"]', "[1.5]", "[1, 1]", "[true]"])
def test_a_reassignment_file_with_invalid_brokers_is_wrong_usage(tmp_path: Path, replicas: str) -> None:
    file = tmp_path / "moves.json"
    file.write_text(f'{{"partitions": [{{"topic": "t", "partition": 0, "replicas": {replicas}}}]}}', encoding="utf-8")
    with pytest.raises(typer.BadParameter, match="t-0"):
        read_file(file)


def test_an_unneeded_election_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    show_outcomes([Outcome(T0, ErrorCode.ELECTION_NOT_NEEDED, "the preferred replica leads")], None)
    assert "ELECTION_NOT_NEEDED" in capsys.readouterr().out
    with pytest.raises(typer.Exit):
        show_outcomes([Outcome(T0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "it is not in sync")], None)


@pytest.mark.parametrize("url", ["http://127.0.0.1:x", "http://127.0.0.1:99999", "http://[::1"])
def test_an_invalid_admin_url_is_reported(url: str) -> None:
    with pytest.raises(KraftError, match="is not a URL"):
        http_api.open_admin(url, "/", {})


def test_a_password_meant_for_encrypted_connections_is_not_sent_over_plain_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="wonderland";\n'
    )
    assert main(["events", "--admin", "http://192.0.2.1:9644", "--command-config", str(file)]) == 1
    told = capsys.readouterr().err
    assert "would send the password of --command-config unencrypted" in told
    assert "wonderland" not in told


def test_a_foreign_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers_otherwise(*_: object, **__: object) -> None:
        raise http.client.BadStatusLine("SSH-2.0")

    monkeypatch.setattr(http.client.HTTPConnection, "request", answers_otherwise)
    with pytest.raises(KraftError, match="SSH"):
        http_api.open_admin("http://127.0.0.1:22", "/", {})


def test_a_failed_log_directory_is_shown_beside_the_others() -> None:
    async def answer(*_: object) -> DescribeLogDirsResponse:
        failed = DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir="/b")
        return DescribeLogDirsResponse(
            results=[failed, DescribeLogDirsResult(log_dir="/a", total_bytes=9, usable_bytes=5)]
        )

    async def main(universe: Universe) -> None:
        found = await describe_log_dirs(ScriptedCluster(universe, {}, answer), 1)
        assert [(each.path, each.error) for each in found] == [("/a", ""), ("/b", "KAFKA_STORAGE_ERROR")]

    Universe(1).run(main)


@pytest.mark.parametrize(
    "words",
    [
        "groups reset-offsets g -t t:x --to-latest",
        "groups delete-offsets g -t t:x --yes",
        "groups delete-offsets g --topic= --yes",
        "quorum remove-voter 1 --directory-id nonsense --yes",
        "quorum add-voter 1 --directory-id nonsense --endpoint a:1",
    ],
)
def test_a_typing_error_is_wrong_usage_with_or_without_a_cluster(words: str) -> None:
    assert main([*words.split(), "-b", "127.0.0.1:1"]) == 2


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> ScriptedCluster:
    """The cluster that every verb asks; what it is asked for is done by functions that a test puts in place."""

    async def nothing(*_: object) -> None: ...

    cluster = ScriptedCluster(Universe(1), {}, nothing)

    def ask(_bootstrap: str, _timeout: float, question: Callable[[ScriptedCluster], Coroutine[Any, Any, Any]]) -> Any:
        return trio.run(question, cluster)

    monkeypatch.setattr("kraft.cli.admin.cluster.groups.ask", ask)
    monkeypatch.setattr("kraft.cli.admin.cluster.topics.ask", ask)
    return cluster


@pytest.mark.parametrize(("noun", "function"), [("groups", "groups.delete_group"), ("topics", "topics.delete_topic")])
@pytest.mark.usefixtures("scripted")
def test_an_item_that_cannot_be_deleted_is_reported_and_blocks_no_other(
    noun: str, function: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def delete(_: ScriptedCluster, name: str) -> None:
        if name == "b":
            raise Refused(ErrorCode.NON_EMPTY_GROUP, f"group {name}")
        if name == "d":
            raise DeadlinePassed("not done within 30 s")

    monkeypatch.setattr(f"kraft.admin.{function}", delete)
    assert main([noun, "delete", "a", "b", "c", "d", "e", "--yes", "-o", "json"]) == 1
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert document["deleted"] == ["a", "c"]
    assert list(document["failed"]) == ["b", "d", "e"]
    assert "not tried" in document["failed"]["e"]
    assert "not done within 30 s" in told.err


@pytest.mark.usefixtures("scripted")
def test_a_topic_that_cannot_grow_keeps_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    async def grow(_: ScriptedCluster, name: str, partitions: int, *, validate_only: bool) -> None:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"topic {name}")

    async def alter(*_: object, **__: object) -> None:
        done.append("configured")

    monkeypatch.setattr("kraft.admin.topics.grow_topic", grow)
    monkeypatch.setattr("kraft.admin.configs.alter_configs", alter)
    with pytest.raises(ApiError):
        main(["topics", "alter", "t", "-p", "1", "-c", "retention.ms=1"])
    assert done == []


@pytest.mark.parametrize(
    "option", [("--from-beginning",), ("-o", "5"), ("-p", "0"), ("-e",), ("--until", "end"), ("-g", "g")]
)
def test_consume_refuses_options_that_a_share_group_decides(
    option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["consume", "jobs", "--share-group", "workers", *option]) == 2
    assert "settings of the group" in " ".join(capsys.readouterr().err.split())
