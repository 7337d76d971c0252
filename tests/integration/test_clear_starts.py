"""Starts that cannot succeed, or have to wait: a real process says in one sentence why, and what to do."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability
from tests.integration.plain_clients import Record, read_confluent, write_confluent
from tests.integration.processes import fingerprint, run_node

SECONDS_MAX = 60
LOG = "__cluster_metadata-0/00000000000000000000.log"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a node that was killed after it had made a topic."""
    directory = tmp_path_factory.mktemp("killed")
    with NodeProcess(directory) as node:
        write_confluent(node.bootstrap, "t", [Record(b"k", b"v")], "none")
        node.kill()
    return directory / "data"


def change_directory_id(data: Path) -> None:
    properties = data / "meta.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("directory.id=")]
    properties.write_text("\n".join([*lines, "directory.id=5wQlcOYmSMCfBsqijurtrw"]) + "\n")


def halve_metadata_log(data: Path) -> None:
    content = (data / LOG).read_bytes()
    (data / LOG).write_bytes(content[: len(content) // 2])


def cut_metadata_log_between_batches(data: Path) -> None:
    """What is left looks whole."""
    content, position = (data / LOG).read_bytes(), 0
    while position < len(content) // 2:
        position += 12 + int.from_bytes(content[position + 8 : position + 12])
    (data / LOG).write_bytes(content[:position])


def remove_metadata_log(data: Path) -> None:
    (data / LOG).unlink()


def remove_voters(data: Path) -> None:
    shutil.rmtree(data / "__cluster_metadata-0")


@pytest.mark.parametrize(
    ("harm", "exit_code", "told"),
    [
        (change_directory_id, 2, ("no controller can be elected", "Put the voter's back into the file")),
        (remove_voters, 1, ("was committed and on this disk up to", "kraft docs replace-a-node")),
        (halve_metadata_log, 1, ("Bring the file", "replace the controller as one whose disk is lost")),
        (cut_metadata_log_between_batches, 1, ("was committed and on this disk up to", "kraft docs replace-a-node")),
        (remove_metadata_log, 1, ("was committed and on this disk up to", "kraft docs replace-a-node")),
    ],
)
def test_a_start_that_cannot_succeed_exits_with_cause_and_remedy(
    killed: Path, tmp_path: Path, harm: Callable[[Path], None], exit_code: int, told: tuple[str, ...]
) -> None:
    data = tmp_path / "data"
    shutil.copytree(killed, data)
    harm(data)
    before = fingerprint(data)
    refused = run_node(data)
    last = refused.stderr.splitlines()[-1]
    assert refused.returncode == exit_code, refused.stderr
    assert all(part in last for part in told), refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.stdout == "", "it never says that it is ready"
    assert {name: digest for name, digest in fingerprint(data).items() if name in before} == before


def test_a_node_formatted_with_voters_does_not_start_without_a_voters_option(tmp_path: Path) -> None:
    listener = NodeProcess(tmp_path)  # Ports are chosen at its first start.
    with listener:
        controller = listener.ready["controller"]
        listener.kill()
    shutil.rmtree(tmp_path / "data")
    arguments = ("--voters", f"1@{controller}", "--format", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg")
    with NodeProcess(tmp_path, *arguments, controller_listen=controller) as node:
        assert node.stop() == 0
    refused = run_node(tmp_path / "data")
    assert refused.returncode == 2
    assert "--voters (controller.quorum.voters) needs that option at every start" in refused.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory of four megabytes."""
    require_capability("root")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def test_a_start_on_a_full_disk_reports_it_and_continues_when_space_is_free(killed: Path, small_disk: Path) -> None:
    data, filler = small_disk / "data", small_disk / "filler"
    shutil.copytree(killed, data)
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    command = [sys.executable, "-m", "kraft.cli.node", "--data-dir", str(data), "--admin", "off"]
    command += ["--listen", "127.0.0.1:0", "--controller-listen", "127.0.0.1:0"]
    log = small_disk.parent / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while "metadata disk is full" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        assert "make room on the disk of" in log.read_text()
        filler.unlink()
        assert process.stdout is not None
        ready = dict(word.partition("=")[::2] for word in process.stdout.readline().split()[1:])
        assert [seen.record.value for seen in read_confluent(ready["kafka"], "t", 1)] == [b"v"]
    finally:
        process.kill()
        process.communicate()


def test_a_broker_that_finds_no_controller_names_the_addresses_it_tried(tmp_path: Path) -> None:
    options = ("--role", "broker", "--bootstrap-controllers", "127.0.0.1:1")
    command = [sys.executable, "-m", "kraft.cli.node", "--data-dir", str(tmp_path / "data"), "--admin", "off"]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "no controller answers" in line
        assert "127.0.0.1:1" in line
        assert "--bootstrap-controllers" in line
    finally:
        process.kill()
        process.communicate()
