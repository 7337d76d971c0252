"""The help of every option and argument appears whole: Rich takes square brackets for markup."""

from __future__ import annotations

from collections.abc import Iterator

import click

from kraft.cli.admin.app import NOUNS, load


def with_verbs(found: click.Command) -> Iterator[click.Command]:
    yield found
    for each in getattr(found, "commands", {}).values():
        yield from with_verbs(each)


def test_no_help_text_has_square_brackets() -> None:
    texts = [
        (command.name, parameter.name, getattr(parameter, "help", None) or "")
        for noun in NOUNS
        for command in with_verbs(load(noun))
        for parameter in command.params
    ]
    assert len(texts) > 200
    assert [each for each in texts if "[" in each[2]] == []
