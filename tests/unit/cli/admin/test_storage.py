"""`kraft storage`: what is written, what is refused, what is told."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from kraft.cli.admin.app import main
from kraft.common.ids import OffsetAndEpoch, uuid_from_text
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from kraft.raft.snapshot.snapshot_reader import SnapshotReader
from kraft.server.formatting import read_bootstrap_records
from kraft.world.real import RealWorld

CLUSTER = "4L6g3nShT-eMCtK--X86sw"


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "node.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=5\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:7001,CONTROLLER://127.0.0.1:7002\ncontroller.quorum.bootstrap.servers=127.0.0.1:7002\n"
        f"log.dirs={tmp_path}/a,{tmp_path}/b\n"
    )
    return path


def test_formatting_writes_the_initial_metadata_of_a_controller(
    properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["storage", "format", "-t", CLUSTER, "-c", str(properties), "--standalone"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Formatting dynamic metadata voter directory {tmp_path}/a with metadata.version 4.4-IV2.",
        f"Formatting data directory {tmp_path}/b with metadata.version 4.4-IV2.",
    ]
    found = sorted(
        str(path.relative_to(tmp_path))
        for directory in "ab"
        for path in (tmp_path / directory).rglob("*")
        if path.is_file()
    )
    checkpoint = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    assert found == [
        f"a/{checkpoint}",
        "a/bootstrap.checkpoint",
        "a/meta.properties",
        "b/bootstrap.checkpoint",
        "b/meta.properties",
    ]
    reader = SnapshotReader(
        RealWorld().files, str(tmp_path / "a" / checkpoint), OffsetAndEpoch(0, 0), MetadataRecordSerde()
    )
    try:
        [voter] = reader.voters.voters if reader.voters is not None else []
    finally:
        reader.close()
    assert (voter.key.id, [tuple(endpoint) for endpoint in voter.endpoints]) == (5, [("CONTROLLER", "127.0.0.1", 7002)])


def test_a_formatted_directory_is_reported_and_not_formatted_again(
    properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["storage", "format", "-t", CLUSTER, "-c", str(properties), "-s"]
    assert main([*command, "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert {key: made[key] for key in ("cluster_id", "node_id", "kraft_version")} == {
        "cluster_id": CLUSTER,
        "node_id": 5,
        "kraft_version": 1,
    }
    assert main(["storage", "info", "-c", str(properties), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    identity = {"cluster_id": CLUSTER, "node_id": 5}
    assert told == {
        "directories": [
            {"path": each["path"], **identity, "directory_id": each["directory_id"]} for each in made["directories"]
        ],
        "problems": [],
    }
    before = (tmp_path / "a/meta.properties").read_bytes()
    assert main(command) == 1
    assert "already formatted" in capsys.readouterr().err
    assert main([*command, "--ignore-formatted"]) == 0
    assert capsys.readouterr().out == "All of the log directories are already formatted.\n"
    assert main(["storage", "format", "-t", "another-cluster", "-c", str(properties), "-s", "-g"]) == 1
    assert "Invalid cluster.id" in capsys.readouterr().err
    assert (tmp_path / "a/meta.properties").read_bytes() == before


def test_invalid_directories_are_reported(properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").mkdir()
    assert main(["storage", "info", "-c", str(properties)]) == 1
    assert capsys.readouterr().out == (
        f"Found log directory:\n  {tmp_path}/a\n\nFound problems:\n  {tmp_path}/a is not formatted.\n  "
        f"{tmp_path}/b does not exist.\n\n"
    )
    (tmp_path / "b").write_text("a file")
    (tmp_path / "a/meta.properties").write_text("version=0\n")
    assert main(["storage", "info", "-c", str(properties), "-o", "json"]) == 1
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [
        f"{tmp_path}/a/meta.properties: only version 1 is supported",
        f"{tmp_path}/b is not a directory.",
    ] == problems
    (tmp_path / "b").unlink()
    main(["storage", "format", "-t", CLUSTER, "-c", str(properties), "-s", "--set", f"log.dirs={tmp_path}/b"])
    capsys.readouterr()
    assert (
        main(["storage", "info", "-c", str(properties), "--set", "node.id=6", "--set", f"log.dirs={tmp_path}/b"]) == 1
    )
    assert "belongs to node 5, not 6" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 1, "you must specify one of the following: --standalone"),
        (("-s", "-N"), 1, "exclude each other"),
        (("-s", "-r", "3.2"), 1, "Unknown metadata.version '3.2'"),
        (("-s", "-f", "flying.version=1"), 1, "Unsupported feature: flying.version"),
        (("-s", "-f", "streams.version=2"), 1, "No feature:streams.version with feature level 2; supported are 0 to 1"),
        (("-s", "-f", "nonsense"), 1, "is not name=level"),
        (("-I", "nonsense"), 1, "is not id@host:port:directory-id"),
        (("-s", "-S", "SCRAM-SHA-1=[name=a,password=b]"), 1, "mechanism SCRAM-SHA-1 is not supported"),
        (("-s", "-S", "SCRAM-SHA-256"), 1, "Failed to find equals sign"),
        (("-s", "-S", "SCRAM-SHA-256=name=a"), 1, "to start with [ and to end with ]"),
        (("-s", "-S", "SCRAM-SHA-256=[name=a,secret]"), 1, "No equals sign found in a SCRAM component"),
        (("-s", "-S", "SCRAM-SHA-256=[password=b]"), 1, "You must supply 'name' to add-scram"),
        (("-s", "-S", "SCRAM-SHA-256=[name=a]"), 1, "You must supply one of 'password' or 'saltedpassword'"),
        (("-s", "-S", "SCRAM-SHA-256=[name=a,saltedpassword=YCE=]"), 1, "You must supply 'salt' with 'saltedpassword'"),
        (("-s", "-S", "SCRAM-SHA-256=[name=a,salt=MQ==,saltedpassword=!]"), 1, "Failed to decode given saltedpassword"),
        (("-s", "-S", "SCRAM-SHA-256=[name=a,salt=1,password=b]"), 1, "Failed to decode given salt"),
        (
            ("-s", "-S", "SCRAM-SHA-256=[name=a,password=b,saltedpassword=YCE=]"),
            1,
            "Unknown SCRAM configurations: saltedpassword",
        ),
        (("-s", "-S", "SCRAM-SHA-256=[name=a,password=b,color=red]"), 1, "Unknown SCRAM configurations: color"),
        (
            ("-s", "-S", "SCRAM-SHA-256=[name=a,password=b,iterations=many]"),
            1,
            "Failed to parse iterations count: many",
        ),
        (("-s", "-S", "SCRAM-SHA-256=[name=a,password=b,iterations=4095]"), 1, "must be >= 4096"),
        (("-s", "-S", "SCRAM-SHA-512=[name=a,password=b,iterations=16385]"), 1, "<= 16384"),
        (("-s", "--set", "nonsense=1"), 2, "unknown key nonsense"),
        (("-s", "-c", "/nowhere.properties"), 2, "/nowhere.properties"),
    ],
)
def test_rejected_formatting_changes_no_file(
    properties: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    code: int,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["storage", "format", "-t", CLUSTER, "-c", str(properties), *arguments]) == code
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_scram_credentials_are_written_for_the_first_controller(
    properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = 'salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5NTFmNw==",saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="'
    salted = f"SCRAM-SHA-512=[name=bob,iterations=8192,{secret}]"
    plain = [
        "SCRAM-SHA-256=[name=alice,password=alice-secret,salt=MnQ2dHZibGhycWZsdXg1anc4cTN3cmM5NA==]",
        "SCRAM-SHA-256=[name=carol,password=x]",
    ]
    command = ["storage", "format", "-t", CLUSTER, "-c", str(properties), "-s"]
    assert main([*command, "-S", plain[0], "--add-scram", salted, "-S", plain[1]]) == 0
    for path in (tmp_path / "a", tmp_path / "b"):
        records = read_bootstrap_records(RealWorld().files, str(path))
        alice, bob, carol = [record for record in records if isinstance(record, UserScramCredentialRecord)]
        assert (alice.name, alice.mechanism, alice.iterations) == ("alice", 1, 4096)
        assert bytes(alice.stored_key) == base64.b64decode("5oxr8rW84AfoIJMzennQtT+kcD1UKybwdcgSrMEgKC8=")
        assert (bob.name, bob.mechanism, bob.iterations, bytes(bob.salt)) == (
            "bob",
            2,
            8192,
            b"1lv4pdnw4fwq7notcxm0y51f7",
        )
        assert (len(carol.salt), len(carol.stored_key), len(carol.server_key)) == (24, 32, 32)


def test_the_initial_voters_of_a_quorum_of_several_are_written(
    properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, other = "4L6g3nShT-eMCtK--X86sg", "4L6g3nShT-eMCtK--X86sQ"
    voters = f"5@127.0.0.1:7002:{mine},6@127.0.0.1:7003:{other}"
    assert main(["storage", "format", "-t", CLUSTER, "-c", str(properties), "-I", voters, "-o", "json"]) == 0
    made = {entry["path"]: entry["directory_id"] for entry in json.loads(capsys.readouterr().out)["directories"]}
    assert uuid_from_text(made[f"{tmp_path}/a"]) == uuid_from_text(mine)
    assert made[f"{tmp_path}/b"] != made[f"{tmp_path}/a"]


def test_a_member_of_a_static_quorum_is_formatted_with_the_options_of_kraft_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is the same on all nodes: number, directory and voters are on the command line."""
    shared = tmp_path / "shared.properties"
    shared.write_text("listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n")
    own = ["--node-id", "2", "--data-dir", f"{tmp_path}/two", "--voters", "1@127.0.0.1:7002,2@127.0.0.1:7003"]
    scram = ["--add-scram", "SCRAM-SHA-256=[name=alice,password=b]"]
    assert main(["storage", "format", "-t", CLUSTER, "-c", str(shared), *own, *scram, "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["node_id"], made["kraft_version"]) == (2, 0)
    records = read_bootstrap_records(RealWorld().files, f"{tmp_path}/two")
    assert [record.name for record in records if isinstance(record, UserScramCredentialRecord)] == ["alice"]


def test_random_uuids_differ_and_have_kafkas_form(capsys: pytest.CaptureFixture[str]) -> None:
    made = []
    for _ in range(2):
        assert main(["storage", "random-uuid"]) == 0
        made.append(capsys.readouterr().out.strip())
    assert made[0] != made[1]
    assert all(len(uuid_from_text(each)) == 16 and not each.startswith("-") for each in made)
