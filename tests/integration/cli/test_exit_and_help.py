"""How `kraft` exits, and its help and tables."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from tests.integration.outcomes import Kraft


def test_invalid_arguments_exit_with_the_usage_code(kraft: Kraft) -> None:
    for words in (
        "topcs list",
        "topics",
        "topics lst",
        "topics create",
        "topics create t -p 0",
        "topics create t -c nonsense",
        "topics list -o toml",
        "consume t --output yaml",
        "events -f -o name",
        "topics delete t",
        "topics delete-records t --before end",
        "groups delete g",
        "groups delete-offsets g -t t",
        "brokers fence 1",
        "brokers decommission 1",
        "brokers unregister 1",
        "quorum remove-voter 1",
        "quorum unregister 1",
        "topics alter t",
        "topics delete-records t --before x",
        "configs describe planet x",
        "configs describe topic",
        "configs set topic t",
        "configs describe broker x",
        "groups reset-offsets g",
        "groups reset-offsets g --to-latest --to-earliest",
        "groups reset-offsets g --to-datetime never",
        "groups reset-offsets g --by-duration soon",
        "groups reset-offsets g -t a:b --to-latest",
        "consume t -o sideways",
        "consume t --until -3",
        "consume t --until sideways",
        "consume t --until 3 --exit",
        "consume t --until 3 -g g",
        "consume t -f %q",
        "consume t -g g -p 1",
        "produce t -k : -K k",
        "produce t --acks 5",
        "produce t -z rar",
        "topics list -b host:port",
        "storage format -t id",
    ):
        outcome = kraft(*words.split())
        assert outcome.code == 2, words
        assert outcome.out == "" or words == "topics"
    assert "Did you mean 'topics'?" in kraft("topcs").err


def test_an_unreachable_cluster_is_reported_immediately_with_a_hint(kraft: Kraft, node: NodeProcess) -> None:
    began = time.monotonic()
    outcome = kraft("topics", "list", "-b", "127.0.0.1:1")
    assert (outcome.code, outcome.out) == (1, "")
    assert "127.0.0.1:1 cannot be reached" in outcome.err
    assert "hint: is a node running there?" in outcome.err
    assert time.monotonic() - began < 10
    assert kraft("topics", "list", "-b", f"127.0.0.1:1,{node.bootstrap}").code == 0, "one of several is enough"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kraft.cli.admin.app", *arguments]


def test_health_waits_for_a_cluster_that_is_not_up_yet(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with subprocess.Popen(
        command("cluster", "health", "--wait", "60", "-b", f"127.0.0.1:{port}"), stdout=subprocess.PIPE, text=True
    ) as waiting:
        time.sleep(1)
        assert waiting.poll() is None
        with NodeProcess(tmp_path, listen=f"127.0.0.1:{port}"):
            assert "healthy" in waiting.communicate(timeout=60)[0]
    assert waiting.returncode == 0


def test_tables_are_drawn_with_output_table(kraft: Kraft) -> None:
    for command in (
        "quorum describe",
        "brokers list",
        "brokers log-dirs --replicas",
        "cluster describe",
        "brokers describe 1",
    ):
        drawn, piped = kraft(*command.split(), "-o", "table"), kraft(*command.split())
        assert (drawn.code, piped.code) == (0, 0)
        assert "─" in drawn.out
        assert "─" not in piped.out
        assert "\t" in piped.out
    assert kraft("cluster", "health").rows == [["healthy", "-", "-"]]
    assert kraft("brokers", "describe", "9").code == 3
    assert kraft("brokers", "log-dirs", "9").code == 3


def test_help_imports_no_command_group_and_exists_for_each_group_and_verb(kraft: Kraft) -> None:
    probe = (
        "import sys; from kraft.cli.admin.app import main; main(['--help']); print([m for m in sys.modules if "
        "m.startswith(('kraft.rpc_client', 'trio'))])"
    )
    outcome = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert outcome.stdout.splitlines()[-1] == "[]"
    from kraft.cli.admin.app import NOUNS, load

    for noun in NOUNS:
        assert noun in outcome.stdout
        verbs = getattr(load(noun), "commands", None)
        for path in [[noun]] if verbs is None else [[noun, verb] for verb in verbs]:
            shown = kraft(*path, "--help")
            assert shown.code == 0
            assert len(shown.out) > 200


def test_help_shows_no_type_for_an_option_without_a_value(kraft: Kraft) -> None:
    for words in (("--help",), ("groups", "--help"), ("groups", "import", "--help")):
        shown = kraft(*words)
        assert (shown.code, "bool" in shown.out) == (0, False)


def test_consume_exits_cleanly_on_a_signal_and_on_a_closed_pipe(kraft: Kraft, node: NodeProcess) -> None:
    kraft("topics", "create", "signalled")
    kraft("produce", "signalled", lines=b"0\n1\n2\n")
    reading = subprocess.Popen(
        command("consume", "signalled", "--from-beginning", "-g", "signalled", "-b", node.bootstrap),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reading.stdout is not None
    assert [reading.stdout.readline() for _ in range(3)] == ["0\n", "1\n", "2\n"]
    reading.send_signal(signal.SIGINT)
    _, complaints = reading.communicate(timeout=30)
    assert (reading.returncode, complaints) == (0, "")
    [group] = kraft("groups", "describe", "signalled", "-o", "json").document["groups"]
    assert (group["state"], group["offsets"][0]["committed_offset"]) == ("Empty", 3)
    # More than a pipe holds.
    assert kraft("produce", "signalled", lines=(b"y" * 999 + b"\n") * 4000).rows == [["0", "4000", "3", "4002"]]
    line = f"{' '.join(command('consume', 'signalled', '--from-beginning', '-e', '-b', node.bootstrap))} | head -1"
    piped = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, "0\n", "")


def test_producing_is_interrupted_immediately_while_it_waits_for_lines(kraft: Kraft, node: NodeProcess) -> None:
    kraft("topics", "create", "interrupted")
    writing = subprocess.Popen(
        command("produce", "interrupted", "-b", node.bootstrap),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert writing.stdin is not None
    writing.stdin.write(b"first\n")
    writing.stdin.flush()
    assert kraft("consume", "interrupted", "-c", "1", "--from-beginning").out == "first\n", (
        "a line is sent before there is another"
    )
    writing.send_signal(signal.SIGINT)
    assert writing.wait(30) == 130
    writing.stdin.close()
    for stream in (writing.stdout, writing.stderr):
        assert stream is not None
        stream.close()
