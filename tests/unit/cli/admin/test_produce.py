"""What `kraft produce` tells when not everything was acknowledged."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.admin.app import main
from kraft.protocol.error_codes import ErrorCode
from tests.unit.cli.admin.asked import asker
from tests.unit.rpc_client.scripted_cluster import sent, stored


@pytest.fixture
def _ten_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "lines").write_bytes(b"".join(b"%d:v\n" % number for number in range(10)))
    with open(tmp_path / "lines", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file.buffer))
        yield


async def refuse_one(request: Any, _: int | None) -> Any:
    """Partition 0 takes everything, partition 1 nothing."""
    outcomes = {0: (ErrorCode.NONE, 100), 1: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)}
    return stored({partition: outcomes[partition.partition] for partition in sent(request)})


@pytest.mark.usefixtures("_ten_lines")
def test_records_acknowledged_before_a_failure_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kraft.cli.admin.records.produce.ask", asker({"t": [1, 1]}, refuse_one))
    assert main(["produce", "t", "-k", ":", "-o", "json"]) == 1
    told = capsys.readouterr()
    document = json.loads(told.out)
    count = document["record_count"]
    assert 0 < count < 10
    assert document["unacknowledged_count"] == 10 - count
    assert document["partitions"] == [
        {"partition": 0, "record_count": count, "first_offset": 100, "last_offset": 99 + count}
    ]
    assert "TOPIC_AUTHORIZATION_FAILED" in document["error"]
    assert (
        f"acknowledged: {count} records (partition 0: {count}, up to offset {99 + count}); not acknowledged: "
        f"{10 - count}"
    ) in told.err


@pytest.mark.usefixtures("_ten_lines")
def test_without_json_a_failed_produce_is_reported_on_stderr_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kraft.cli.admin.records.produce.ask", asker({"t": [1, 1]}, refuse_one))
    assert main(["produce", "t", "-p", "1"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[-1] == "kraft: acknowledged: 0 records; not acknowledged: 10, but possibly stored"


@pytest.mark.usefixtures("_ten_lines")
def test_a_successful_produce_has_no_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def take(request: Any, _: int | None) -> Any:
        return stored(dict.fromkeys(sent(request), (ErrorCode.NONE, 0)))

    monkeypatch.setattr("kraft.cli.admin.records.produce.ask", asker({"t": [1, 1]}, take))
    assert main(["produce", "t", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["record_count"], document["unacknowledged_count"], document["error"]) == (10, 0, None)
