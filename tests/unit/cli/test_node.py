"""The command line of a node: options, exit codes, the ready line, signals."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kraft.cli.admin.app import main as admin_main
from kraft.cli.node import UNUSABLE, configure, main
from kraft.cli.options import parse_command_line
from kraft.cli.terminal import ready_line
from kraft.common.config.endpoints import Endpoint
from kraft.common.config.node.format_options import FormatOptions
from kraft.common.version import VERSION

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("KAFKA_") or name == "CLUSTER_ID"]:
        monkeypatch.delenv(name)


def stub(mode: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "STUB_MODE": mode}
    command = [sys.executable, "-m", "tests.unit.cli.stub_node", "--admin", "off", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_options_become_config_texts_without_validation() -> None:
    invocation = parse_command_line(
        [
            "--role",
            "broker",
            "--set",
            "a=b",
            "--node-id",
            "x",
            "--node-id",
            "2",
            "--format",
            "--config",
            "f",
            "--set",
            "c=d",
        ]
    )
    assert sorted(invocation.options) == [
        ("--format", "true"),
        ("--node-id", "2"),
        ("--node-id", "x"),
        ("--role", "broker"),
    ]
    assert (invocation.sets, invocation.config_paths) == (["a=b", "c=d"], ["f"])
    assert invocation.format_options == FormatOptions()


def test_formatting_options_are_those_of_kafkas_tool_and_show_no_password() -> None:
    invocation = parse_command_line(
        ["--add-scram", "A=[name=a,password=wonderland]", "--add-scram", "B", "--feature", "f=1", "--standalone"]
    )
    asked = invocation.format_options
    assert (asked.add_scram, asked.features) == (("A=[name=a,password=wonderland]", "B"), ("f=1",))
    assert (asked.standalone, asked.initial_controllers, invocation.options) == (True, None, [])
    assert configure(invocation).format_options == asked
    assert "wonderland" not in repr(configure(invocation))


def test_help_names_every_documented_option_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse_command_line(["--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for option in (
        "--role",
        "--node-id",
        "--data-dir",
        "--listen",
        "--controller-listen",
        "--admin",
        "--voters",
        "--bootstrap-controllers",
        "--cluster-id",
        "--format",
        "--add-scram",
        "--feature",
        "--release-version",
        "--standalone",
        "--initial-controllers",
        "--no-initial-controllers",
        "--config",
        "--set",
        "--log-format",
        "--log-level",
        "--version",
    ):
        assert option in shown
    assert max(len(line) for line in shown.splitlines()) <= 120


def test_an_unknown_option_is_rejected_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse_command_line(["--lisen", "x"])
    assert left.value.code == 2
    assert "--lisen" in capsys.readouterr().err


def test_an_unusable_configuration_is_one_report_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.properties").write_text("num.partitions=none\n")
    code = main(
        [
            "--config",
            str(tmp_path / "missing.properties"),
            "--config",
            str(tmp_path / "bad.properties"),
            "--set",
            "num.partition=1",
        ]
    )
    shown = capsys.readouterr()
    assert (code, shown.out) == (UNUSABLE, "")
    assert shown.err.splitlines()[0] == "kraft-node: unusable configuration, 3 problems:"
    assert f"--config {tmp_path}/missing.properties: No such file or directory" in shown.err
    assert (
        "bad.properties:1: Invalid value none for configuration num.partitions: Not a number of type INT" in shown.err
    )
    assert "did you mean num.partitions?" in shown.err


def test_the_ready_line_is_machine_readable() -> None:
    broker, controller = Endpoint("PLAINTEXT", "127.0.0.1", 9092), Endpoint("CONTROLLER", "::1", 9093)
    line = ready_line(
        1, ("broker", "controller"), broker, controller, "http://127.0.0.1:9644", "4L6g3nShT-eMCtK--X86sw", 95
    )
    assert line == (
        "ready node=1 roles=broker,controller kafka=127.0.0.1:9092 controller=[::1]:9093 "
        "admin=http://127.0.0.1:9644 cluster=4L6g3nShT-eMCtK--X86sw ms=95"
    )
    assert (
        ready_line(2, ("controller",), None, controller, None, "x", 1)
        == "ready node=2 roles=controller controller=[::1]:9093 admin=off cluster=x ms=1"
    )


def test_a_signal_requests_a_stop_and_the_process_exits_with_0() -> None:
    done = stub("asked", "--listen", "127.0.0.1:0", "--log-format", "json")
    assert done.returncode == 0
    [line] = done.stdout.splitlines()
    assert line.startswith(
        "ready node=1 roles=broker,controller kafka=127.0.0.1:7000 controller=127.0.0.1:9093 admin=off "
        "cluster=4L6g3nShT-eMCtK--X86sw ms="
    )
    assert [event in done.stderr for event in ('"event": "stopping"', '"event": "stub stopped"')] == [True, True]


def test_a_signal_before_the_node_serves_stops_it_immediately_without_a_ready_line() -> None:
    done = stub("never ready")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_hanging_shutdown_is_aborted_at_its_deadline() -> None:
    done = stub("hangs", "--set", "kraft.shutdown.timeout.ms=50")
    assert done.returncode == 0
    assert "shutdown_cut_short" in done.stderr


@pytest.mark.parametrize("mode", ["thread hangs", "loop hangs"])
def test_a_disk_that_never_responds_does_not_outlast_the_shutdown(mode: str) -> None:
    done = stub(mode, "--set", "kraft.shutdown.timeout.ms=50")
    assert done.returncode == 1
    assert "does not answer" in done.stderr.splitlines()[-1]


def test_a_second_signal_exits_immediately() -> None:
    assert stub("two signals", "--set", "kraft.shutdown.timeout.ms=60000").returncode == 130


def test_a_fault_exits_with_1_and_its_reason_as_the_last_line() -> None:
    done = stub("fault")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == "kraft-node: [Errno 28] No space left on device (OSError)"


def test_a_foreign_directory_is_an_unusable_configuration() -> None:
    done = stub("unusable")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "kraft-node: unusable configuration, 1 problem:",
        "  --data-dir: /nowhere belongs to another cluster",
    ]


def test_an_admin_port_in_use_is_reported_with_its_option() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        environment = {**os.environ, "STUB_MODE": "asked"}
        command = [sys.executable, "-m", "tests.unit.cli.stub_node", "--admin", f"127.0.0.1:{port}"]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 2
    assert (
        f"--admin: 127.0.0.1:{port} is in use by another process; choose another port, or 0 to have one picked"
        in done.stderr
    )


def test_configuration_warnings_reach_the_log() -> None:
    assert "num.io.threads has no effect here" in stub("asked", "--set", "num.io.threads=9").stderr


def test_the_version_is_that_of_the_distribution() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION


def test_windows_is_rejected_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main([]) == UNUSABLE
    assert admin_main(["topics", "list"]) == UNUSABLE
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in said] == ["kraft-node", "kraft"]
    assert all("Windows is not supported" in line and "Subsystem for Linux" in line for line in said)
