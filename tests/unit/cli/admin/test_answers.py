"""How answers and failures are told."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kraft.admin.errors import Refused
from kraft.cli.admin.app import main
from kraft.cli.admin.options import OutputFormat
from kraft.cli.admin.output import Table, moment, render, say, show, size, text
from kraft.cli.admin.records.record_format import parse_format
from kraft.cli.admin.running import NotFound, ask, complain
from kraft.common.errors import ConfigurationError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.record import Record
from kraft.rpc_client.consumer import ConsumedRecord
from kraft.rpc_client.errors import DeadlinePassed, NoBroker


def test_cells_are_printed_as_text() -> None:
    assert [text(cell) for cell in (None, "", True, False, 0, (), (1, 2), "x")] == [
        "-",
        "-",
        "yes",
        "no",
        "0",
        "-",
        "1,2",
        "x",
    ]
    assert [size(count) for count in (-1, 0, 1023, 1024, 1536 * 1024, 1 << 50)] == [
        "-",
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 MiB",
        "1024.0 TiB",
    ]
    assert [moment(time) for time in (-1, 0, 1 << 60)] == [None, "1970-01-01T00:00:00.000Z", None]


DOCUMENTS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
        max_leaves=8,
    ),
)


@given(DOCUMENTS)
def test_yaml_output_parses_to_the_document(document: dict[str, Any]) -> None:
    assert yaml.safe_load(render(document, OutputFormat.YAML)) == document


def test_yaml_output_is_easy_to_read() -> None:
    document = {"topics": [{"name": "flights", "partitions": [{"partition": 0, "replicas": [1, 2]}]}], "note": None}
    assert render(document, OutputFormat.YAML).splitlines() == [
        "topics:",
        "  - name: flights",
        "    partitions:",
        "      - partition: 0",
        "        replicas:",
        "          - 1",
        "          - 2",
        "note: null",
    ]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"topics": [{"name": "a"}, {"name": "b"}]}, ["a", "b"]),
        ({"topics": []}, []),
        ({"cluster_id": "c", "brokers": [{"node_id": 1}]}, ["1"]),
        ({"partitions": [{"topic": "a", "partition": 0}]}, ["a-0"]),
        ({"topic": "a", "created": True, "partitions": [{"partition": 0}]}, ["a"]),
        ({"deleted": ["a", "b"], "failed": {}}, ["a", "b"]),
        ({"broker": {"node_id": 1}}, ["1"]),
        ({"seconds": 3}, []),
    ],
)
def test_the_name_format_prints_one_name_per_line(document: dict[str, Any], names: list[str]) -> None:
    assert render(document, OutputFormat.NAME).splitlines() == names


def test_wide_columns_are_printed_on_request_and_always_in_pipes(capsys: pytest.CaptureFixture[str]) -> None:
    tables = [Table(("A", "B"), [("one", "two")], wide=frozenset("B"))]
    shown = []
    for output in (OutputFormat.TABLE, OutputFormat.WIDE, None):
        show({}, tables, output)
        shown.append("two" in capsys.readouterr().out)
    assert shown == [False, True, True]


def test_a_pipe_gets_tabs_and_a_terminal_gets_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [Table(("A", "B"), [(1, "x\ty\n")]), Table(("C",), [], "second")]
    show({"a": "ü"}, tables, None)
    assert capsys.readouterr().out == "A\tB\n1\tx y \n\n# second\nC\n"
    show({"a": "ü"}, tables, OutputFormat.JSON)
    assert capsys.readouterr().out == '{\n  "a": "ü"\n}\n'
    show({"a": "ü"}, [Table(("A",), [("[bold]" + "x" * 500,)])], OutputFormat.TABLE)
    drawn = capsys.readouterr().out
    assert "─" in drawn
    assert "[bold]" + "x" * 500 in drawn, "nothing is cut off, nothing is markup"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    show({"a": 1}, [Table(("A",), [("x",)])], None)
    assert "─" in capsys.readouterr().out


def test_an_outcome_is_printed_as_a_sentence_or_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    say({"done": True}, "done", None)
    assert capsys.readouterr().out == "done\n"
    say({"done": True}, "done", OutputFormat.JSON)
    assert json.loads(capsys.readouterr().out) == {"done": True}


@pytest.mark.parametrize(
    ("problem", "code", "hint"),
    [
        (Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic t"), 3, "kraft topics list"),
        (Refused(ErrorCode.GROUP_ID_NOT_FOUND, "group g"), 3, "kraft groups list"),
        (NotFound("there is no broker 3", "there are 1, 2"), 3, "there are 1, 2"),
        (Refused(ErrorCode.TOPIC_ALREADY_EXISTS, "topic t"), 1, "--if-not-exists"),
        (Refused(ErrorCode.POLICY_VIOLATION, "topic t"), 1, ""),
        (NoBroker("a:1 cannot be reached"), 1, "kraft-node"),
        (DeadlinePassed("not done within 3 s"), 1, "--timeout"),
        (TimeoutError("no answer"), 1, "--timeout"),
        (ConfigurationError(["first", "second"]), 1, ""),
    ],
)
def test_failures_are_sentences_on_stderr_with_hints(
    problem: NotFound | TimeoutError, code: int, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complain(problem) == code
    written = capsys.readouterr()
    assert written.out == ""
    lines = written.err.splitlines()
    assert lines[0].startswith("kraft: ")
    assert (hint in lines[-1]) if hint else not any("hint" in line for line in lines)


def test_an_error_out_of_a_nursery_is_reported_without_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as leaving:
        ask("127.0.0.1:1", 1.0, None)  # type: ignore[arg-type]  # Nobody is there, so it is not asked.
    assert leaving.value.exit_code == 1
    assert "cannot be reached" in capsys.readouterr().err


def test_unresponsive_nodes_share_one_timeout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waited: list[float] = []

    async def open_connection(_: Any, host: str, port: int, *, client_id: str, timeout: float) -> None:
        waited.append(timeout)
        raise TimeoutError(f"{host}:{port} did not accept a connection within {timeout:g} s as {client_id}")

    monkeypatch.setattr("kraft.rpc_client.cluster.open_connection", open_connection)
    assert main(["topics", "list", "-b", "a:1,b:2,c:3", "--timeout", "3"]) == 1
    assert len(waited) == 3
    assert sum(waited) <= 3
    told = capsys.readouterr().err
    assert all(address in told for address in ("a:1", "b:2", "c:3"))


RECORD = ConsumedRecord(TopicPartition("t", 1), 3, 1, Record(5, 7, b"k", b"\xff", (("h", None), ("i", b"j"))))


def test_kcat_format_strings_are_parsed() -> None:
    assert parse_format(r"%t %p %o %T %k %K %S %h%%\t\n")(RECORD) == b"t 1 5 7 k 1 1 h=,i=j%\t\n"
    assert parse_format("%s")(RECORD) == b"\xff"
    assert parse_format("ü")(RECORD) == "ü".encode()
    null = RECORD._replace(record=Record(0, 0, None, None))
    assert parse_format("[%k%s] %K %S")(null) == b"[] -1 -1"
    for wrong in ("%", "%q", "\\", "\\q"):
        with pytest.raises(typer.BadParameter):
            parse_format(wrong)


def test_json_output_names_the_encoding_of_bytes() -> None:
    document = json.loads(parse_format("json")(RECORD))
    assert document == {
        "topic": "t",
        "partition": 1,
        "offset": 5,
        "timestamp": 7,
        "timestamp_type": "log_append_time",
        "key": "k",
        "key_encoding": "utf-8",
        "value": "/w==",
        "value_encoding": "base64",
        "headers": [
            {"name": "h", "name_encoding": "utf-8", "value": None, "encoding": None},
            {"name": "i", "name_encoding": "utf-8", "value": "j", "encoding": "utf-8"},
        ],
    }


def test_a_header_name_that_is_not_utf_8_is_printed_unchanged() -> None:
    odd = RECORD._replace(record=Record(0, 0, None, None, ((b"\xffn".decode("utf-8", "surrogateescape"), b"x"),)))
    assert parse_format("%h")(odd) == b"\xffn=x"
    assert json.loads(parse_format("json")(odd))["headers"] == [
        {"name": "/24=", "name_encoding": "base64", "value": "x", "encoding": "utf-8"}
    ]
