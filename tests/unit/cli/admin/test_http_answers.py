"""What is said when a node's HTTP admin, or whoever is in its place, answers what it never would."""

from __future__ import annotations

import json
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kraft.cli.admin.app import main
from kraft.cli.admin.cluster import bundle


class _Damaged(BaseHTTPRequestHandler):
    body = b""
    announced_extra = 0
    is_chunked = False
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        if self.is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%b" % (len(self.body) + self.announced_extra, self.body))
            return
        self.send_header("Content-Length", str(len(self.body) + self.announced_extra))
        self.end_headers()
        self.wfile.write(self.body)

    def log_request(self, code: object = "-", size: object = "-") -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Damaged) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


# Without its fields.
EVENT = b'{"id": 1, "time": "now", "kind": "leader.changed"}'


PAGE = b'{"data": [' + EVENT + b'], "missed": false, "last_id": 1}'


@pytest.mark.parametrize("body", [b"<html>", b"\xff", b"[]", b"null", b'{"data": 1}', b'{"data": [{}]}', PAGE])
@pytest.mark.parametrize("words", ["events", "elections losses"])
def test_an_invalid_http_response_is_reported(
    words: str, body: bytes, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_Damaged, "body", body)
    assert main([*words.split(), "--admin", url]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"kraft: {url} sent an unexpected response: ")


@pytest.mark.parametrize("words", ["events", "elections losses"])
def test_a_truncated_http_response_is_reported(
    words: str, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_Damaged, "body", b'{"data": [')
    monkeypatch.setattr(_Damaged, "announced_extra", 5)
    assert main([*words.split(), "--admin", url]) == 1
    assert capsys.readouterr().err.startswith(f"kraft: {url} ")


@pytest.mark.parametrize(
    "body",
    [
        b"data: {oops\n\n",
        b"data: \xff\n\n",
        b"data: []\n\n",
        b"data: " + EVENT + b"\n\n",
        b"id: x\nevent: missed\ndata: {}\n\n",
    ],
)
def test_an_invalid_http_stream_is_reported(
    body: bytes, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_Damaged, "body", body)
    monkeypatch.setattr("kraft.cli.admin.cluster.events.RECONNECT_SECONDS", 0.0)
    assert main(["events", "-f", "--admin", url]) == 1
    assert capsys.readouterr().err.startswith(f"kraft: {url} sent an unexpected response: ")


def test_a_bundle_is_written_although_a_response_is_truncated(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bundle, "VERBS", ())
    monkeypatch.setattr(_Damaged, "body", b"# HELP")
    monkeypatch.setattr(_Damaged, "announced_extra", 1)
    monkeypatch.setattr(_Damaged, "is_chunked", True)
    main(["bundle", "--file", str(tmp_path / "b.tar.gz"), "--admin", url, "-o", "json"])
    assert len(json.loads(capsys.readouterr().out)["errors"]) == len(bundle.PATHS)


def test_a_password_in_the_url_is_rejected_and_in_no_bundle(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bundle, "VERBS", ())
    named = url.replace("http://", "http://alice:wonderland@")
    main(["bundle", "--file", str(tmp_path / "b.tar.gz"), "--admin", named])
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        errors = archive.extractfile("b/errors.txt")
        assert errors is not None
        told = errors.read().decode()
    assert "--command-config" in told
    assert main(["events", "--admin", named]) == 1
    assert "wonderland" not in told + "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"title": "Forbidden", "detail": "User:a may not see events."}', "User:a may not see events."),
        (b'{"detail": "It is not there.", "hint": "Look elsewhere."}', "It is not there. Look elsewhere."),
        (b"<html>no</html>", "<html>no</html>"),
    ],
)
def test_a_refusal_is_printed_as_a_sentence_instead_of_json(
    body: bytes, said: str, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_Damaged, "body", body)
    monkeypatch.setattr(_Damaged, "status", 403)
    assert main(["events", "--admin", url]) == 1
    assert capsys.readouterr().err.splitlines()[0] == f"kraft: {url} answers 403: {said}"
