"""Every code block of the documents says how it is run, or why it is only shown."""

from __future__ import annotations

import pytest

from tests.docs.blocks import blocks_of, documents, parse_blocks, problems_of


@pytest.mark.parametrize("document", documents())
def test_every_block_is_marked(document: str) -> None:
    assert [problem for block in blocks_of(document) for problem in problems_of(block)] == []


@pytest.mark.parametrize(
    "text",
    [
        "Type:\n\n    kraft topics list\n",
        "```\nkraft topics list\n```\n",
        "```bash\nkraft topics list\n```\n",
        "- a list\n\n  ```python\n  1\n  ```\n",
        "```bash session=one shown='both'\nkraft topics list\n```\n",
        "```bash shown=\nkraft topics list\n```\n",
        "```bash session=one quickly\nkraft topics list\n```\n",
        "```bash tested-by=tests/no_such_test.py\nkraft topics list\n```\n",
        "```json session=one\n{}\n```\n",
    ],
)
def test_a_block_that_no_test_runs_is_found(text: str) -> None:
    [block] = parse_blocks("docs/page.md", text)
    assert list(problems_of(block))


def test_executed_blocks_and_data_blocks_pass() -> None:
    text = (
        "```bash session=one background=ready\nkraft-node\n```\n\n```text output\nready ...\n```\n\n```json\n{}\n```\n"
    )
    assert [problem for block in parse_blocks("docs/page.md", text) for problem in problems_of(block)] == []
