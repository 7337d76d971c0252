"""How verbs leave when nobody reads what they write any more, and when somebody presses Ctrl-C."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer

from kraft.cli.admin.app import main
from kraft.cli.admin.command_config import security_of_command
from kraft.cli.admin.options import OutputFormat
from kraft.cli.admin.output import Table, say, show
from kraft.cli.admin.running import ask
from kraft.common.errors import KraftError
from kraft.rpc_client.client_keys import ClientSecurity
from kraft.rpc_client.cluster import Cluster


@contextmanager
def unread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Standard output is a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as pipe, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", pipe)
        yield


@pytest.mark.parametrize("output", [None, OutputFormat.JSON, OutputFormat.TABLE])
@pytest.mark.parametrize("count", [1, 9000])
def test_a_closed_output_pipe_is_no_failure(
    output: OutputFormat | None, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(number, "x" * 50) for number in range(count if output is not OutputFormat.TABLE else min(count, 1000))]
    with unread(monkeypatch):
        show({"rows": rows}, [Table(("A", "B"), rows)], output)
        say({"done": True}, "done", output)


@pytest.mark.parametrize(
    "words", ["storage random-uuid", "--help", "topics --help", "topics create --help", "--version"]
)
def test_a_command_with_a_closed_output_pipe_exits_with_its_normal_code(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with unread(monkeypatch):
        assert main(words.split()) == 0


class _Terminal:
    """A person who answers so; None is Ctrl-C."""

    def __init__(self, *answers: str | None) -> None:
        self._answers = list(answers)

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        answer = self._answers.pop(0)
        if answer is None:
            raise KeyboardInterrupt
        return answer


@pytest.mark.parametrize(
    ("answers", "code"),
    [((None,), 130), (("n\n",), 1), (("\n",), 1), (("",), 1), (("what\n", None), 130), (("what\n", "Yes\n"), 7)],
)
def test_a_prompt_is_written_to_stderr_and_answered(
    answers: tuple[str | None, ...], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def done(*_: object) -> None:
        raise typer.Exit(7)

    monkeypatch.setattr("kraft.cli.admin.cluster.topics.ask", done)
    monkeypatch.setattr(sys, "stdin", _Terminal(*answers))
    assert main(["topics", "delete", "t"]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert "Delete t with all records? [y/N]: " in told.err


def test_an_interrupt_among_other_failures_is_an_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    async def question(_: Cluster) -> None:
        raise BaseExceptionGroup("both", [BaseExceptionGroup("deep", [KeyboardInterrupt()]), KraftError("broke")])

    with pytest.raises(typer.Exit) as leaving:
        ask("127.0.0.1:1", 1.0, question, at_once=False)
    assert leaving.value.exit_code == 130
    assert capsys.readouterr().err == ""


def test_of_several_failures_the_first_is_reported() -> None:
    async def question(_: Cluster) -> None:
        raise ExceptionGroup("both", [KraftError("first"), TimeoutError("second")])

    with pytest.raises(typer.Exit) as leaving:
        ask("127.0.0.1:1", 1.0, question, at_once=False)
    assert leaving.value.exit_code == 1


def test_the_command_config_of_one_command_does_not_apply_to_the_next(tmp_path: Path) -> None:
    assert main(["topics", "list", "--command-config", str(tmp_path / "nowhere")]) == 1
    assert security_of_command() == ClientSecurity()
