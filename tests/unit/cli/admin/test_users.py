"""`kraft users`: where a password comes from, and what is refused before a cluster is asked."""

from __future__ import annotations

import io

import pytest

from kraft.cli.admin.app import main
from kraft.cli.admin.cluster import users

NOWHERE = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "0.1")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("arguments", "typed", "said"),
    [
        (["add", "User:alice"], "secret\n", "leave out User:"),
        (["add", "alice", "--mechanism", "PLAIN"], "secret\n", "SCRAM-SHA-256, SCRAM-SHA-512"),
        (["add", "alice"], "\n", "the first line of standard input is empty"),
        (["add", "alice", "--password-variable", "NOT_SET"], "secret\n", "the variable NOT_SET is empty"),
        (["add", "alice"], "x" * 5000, "has more than 4096 characters"),
        (["add", "alice", "--iterations", "1"], "secret\n", "4096"),
        (["remove", "alice"], "", "cannot ask without a terminal"),
    ],
)
def test_invalid_users_are_rejected_without_showing_a_password(
    arguments: list[str],
    typed: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert main(["users", *arguments, *NOWHERE]) == 2
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert said in told
    assert "secret" not in told


def test_a_terminal_prompts_for_a_password_without_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def prompt(text: str, **how: object) -> str:
        asked.append({"text": text, **how})
        return "typed"

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(users.typer, "prompt", prompt)
    assert users._password("alice", None) == "typed"
    assert asked == [{"text": "Password of alice", "hide_input": True, "confirmation_prompt": "Again", "err": True}]
