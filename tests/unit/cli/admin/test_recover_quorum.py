"""`kraft storage recover-quorum`: what is asked, refused and written on a disk. Processes are in tests/integration."""

from __future__ import annotations

import io
import json
import socket
from pathlib import Path

import pytest

from kraft.cli.admin.app import main
from kraft.raft.metadata_log import MetadataLog
from kraft.testing.ports import free_ports
from kraft.world.real.files import RealFileSystem
from tests.unit.raft.builders import data_batch

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
SURE = "--yes-i-know-what-may-be-lost"
DIRECTORY_IDS = ("AAAAAAAAAAAAAAAAAAAABQ", "AAAAAAAAAAAAAAAAAAAABg")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def ports() -> list[int]:
    return free_ports(2)


@pytest.fixture
def properties(tmp_path: Path, ports: list[int]) -> Path:
    """Node 5 of a quorum of two, stopped, with one batch in its log."""
    path = tmp_path / "node.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=5\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{ports[0]}\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{ports[0]}\nlog.dirs={tmp_path}/a,{tmp_path}/b\n"
    )
    voters = ",".join(
        f"{node}@127.0.0.1:{port}:{disk}" for node, port, disk in zip((5, 6), ports, DIRECTORY_IDS, strict=True)
    )
    assert main(["storage", "format", "-t", CLUSTER, "-c", str(path), "-I", voters]) == 0
    log = MetadataLog.open(RealFileSystem(), f"{tmp_path}/a/__cluster_metadata-0", segment_bytes=1 << 20)
    log.append([data_batch(0, "a record")], 1)
    log.sync()
    log.close()
    return path


def recover(properties: Path, *arguments: str) -> int:
    return main(["storage", "recover-quorum", "-c", str(properties), *arguments])


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in (".lock", "partition.metadata")
    }


def test_a_dry_run_reports_the_known_state_and_the_possible_loss(
    properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(tmp_path)
    capsys.readouterr()
    assert recover(properties, "--dry-run") == 0
    told = capsys.readouterr().out
    for sentence in (
        "last record          offset 0, epoch 1",
        "committed            not known",
        "newest snapshot      none",
        "voters before        5, 6 (kraft.version 1)",
        "What may be lost:",
        "must be wiped before their nodes are started again",
        "Nothing was done",
    ):
        assert sentence in told
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("typed", "code"), [(f"{CLUSTER}\n", 0), ("y\n", 1), ("", 1)])
def test_the_cluster_id_must_be_typed(
    properties: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    code: int,
) -> None:
    before = contents(tmp_path)
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert recover(properties) == code
    asked = capsys.readouterr().err
    assert "What may be lost:" in asked
    assert f"Type {CLUSTER} to go on" in asked
    assert (contents(tmp_path) == before) == (code == 1)


def test_a_second_recovery_does_nothing(properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recover(properties, SURE) == 0
    done = contents(tmp_path)
    capsys.readouterr()
    assert recover(properties, SURE, "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["voters_before"], told["epoch"], told["executed"]) == ([5], None, False)
    assert told["last_epoch"] == told["known_epoch"] > 1_000_000
    assert contents(tmp_path) == done


def test_a_voter_that_responds_is_named(
    properties: Path, tmp_path: Path, ports: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(tmp_path)
    with socket.create_server(("127.0.0.1", ports[1])):
        assert recover(properties, SURE) == 1
    assert f"voter 6 at 127.0.0.1:{ports[1]} answers" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_directories_in_use_of_another_node_or_unformatted_are_rejected(
    properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(tmp_path)
    with RealFileSystem().lock(f"{tmp_path}/b/.lock"):
        assert recover(properties, SURE) == 1
    assert f"{tmp_path}/b: in use by" in capsys.readouterr().err
    assert recover(properties, SURE, "--node-id", "6") == 1
    assert "belongs to node 5, not 6" in capsys.readouterr().err
    assert recover(properties, SURE, "--data-dir", f"{tmp_path}/c") == 1
    assert f"{tmp_path}/c is not formatted" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
    assert contents(tmp_path) == before
