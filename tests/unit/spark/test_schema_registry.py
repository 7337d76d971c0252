"""What a schema registry is asked for, and what is said if it does not answer."""

from __future__ import annotations

import io
import json
from typing import Any
from urllib.error import HTTPError, URLError

import pytest

pytest.importorskip("pyarrow")

from kraft.spark.decode import schema_registry
from kraft.spark.decode.schema_registry import is_registry, schemas_of

HOST = "http://registry:8081"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What it answers, by path."""
    answers: dict[str, Any] = {}

    def open_url(url: str, timeout: float) -> io.BytesIO:
        path = url.removeprefix(HOST)
        found = answers.get(path)
        if found is None:
            raise HTTPError(url, 404, "Not Found", None, io.BytesIO())  # type: ignore[arg-type]
        if isinstance(found, Exception):
            raise found
        return io.BytesIO(json.dumps(found).encode())

    monkeypatch.setattr(schema_registry, "urlopen", open_url)
    return answers


def test_all_schema_versions_are_requested_and_rows_have_the_latest_one(
    registry: dict[str, Any],
) -> None:
    registry["/subjects/t-value/versions"] = [1, 3]
    registry["/subjects/t-value/versions/1"] = {"id": 7, "schema": "first"}
    registry["/subjects/t-value/versions/3"] = {"id": 5, "schema": "third", "schemaType": "AVRO"}
    found = schemas_of(HOST + "/", "t-value")
    assert (found.reader, found.writers, found.subject) == ("third", {7: "first", 5: "third"}, "t-value")
    assert schemas_of(f"{HOST}/subjects/t-value", None) == found


def test_a_subject_name_may_contain_any_characters(registry: dict[str, Any]) -> None:
    registry["/subjects/a%2Fb/versions"] = [1]
    registry["/subjects/a%2Fb/versions/1"] = {"id": 7, "schema": "first"}
    assert schemas_of(f"{HOST}/subjects/a%2Fb", None).subject == "a/b"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://me:secret@registry:8081", "must not contain a password"),
        (HOST, f"must name a subject \\({HOST}/subjects/<subject>\\)"),
        (f"{HOST}/subjects/t/versions/1", "leave out the version"),
        (f"{HOST}/subjects/none", f"answered 404 Not Found for {HOST}/subjects/none/versions"),
        (f"{HOST}/subjects/empty", "returned no versions"),
        (f"{HOST}/subjects/proto", "version 1 of the subject proto is not Avro alone"),
        (f"{HOST}/subjects/down", "could not be fetched from the schema registry: .*refused"),
    ],
)
def test_the_reason_for_a_missing_schema_is_reported_without_the_secret(
    registry: dict[str, Any], url: str, problem: str
) -> None:
    registry["/subjects/empty/versions"] = []
    registry["/subjects/proto/versions"] = [1]
    registry["/subjects/proto/versions/1"] = {"id": 7, "schema": "x", "schemaType": "PROTOBUF"}
    registry["/subjects/down/versions"] = URLError("connection refused")
    with pytest.raises(ValueError, match=problem) as told:
        schemas_of(url, None)
    assert "secret" not in str(told.value)


def test_registry_responses_have_a_size_limit(registry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "ANSWER_BYTES_MAX", 10)
    registry["/subjects/t/versions"] = list(range(100))
    with pytest.raises(ValueError, match="more than 10 bytes"):
        schemas_of(f"{HOST}/subjects/t", None)


def test_an_http_url_is_a_registry_and_any_other_text_a_file() -> None:
    assert is_registry(" HTTPS://registry")
    assert not is_registry("flight.avsc")
