"""The real object stores: what their failures are called, and that nobody loads the library who does not need it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trio

from kraft.world.ports import ObjectError, ObjectMissing, ObjectRefused, ObjectStore, ObjectUnreachable
from kraft.world.real.objects import RealObjects


class Answers(BaseHTTPRequestHandler):
    """Always the same, after a while."""

    status = 200
    silence = threading.Event()

    def answer(self) -> None:
        if self.status == 0:
            self.silence.wait(30)
            return
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def store_that_answers(status: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """`status` 0: never."""
    handler = type("Answers", (Answers,), {"status": status, "silence": threading.Event()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}"),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "here"),
    ):
        monkeypatch.setenv(name, value)
    try:
        yield RealObjects().open("s3://bucket/prefix", timeout_seconds=1.0)
    finally:
        handler.silence.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (403, ObjectRefused),
        (401, ObjectRefused),
        (404, ObjectMissing),
        (500, ObjectUnreachable),
        (0, ObjectUnreachable),
    ],
)
def test_an_object_store_failure_has_its_error_kind(
    status: int, expected: type[ObjectError], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(store: ObjectStore) -> None:
        with pytest.raises(expected):
            await store.digest("name")
        with pytest.raises(expected):
            await store.get_range("name", 0, 10)
        with pytest.raises(expected):
            await store.put("name", b"content")

    with store_that_answers(status, monkeypatch) as store:
        trio.run(ask, store)


def test_an_invalid_store_location_is_refused_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = RealObjects()
    for uri in ("", "here", "ftp://host/folder", "S3://bucket"):
        with pytest.raises(ValueError, match="no place for objects"):
            objects.open(uri, timeout_seconds=1.0)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be used"):
        objects.open(f"file://{tmp_path}/file/folder", timeout_seconds=1.0)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ValueError, match=r"kraft-node\[tiered\]"):
        objects.open(f"file://{tmp_path}", timeout_seconds=1.0)


def test_the_store_library_is_loaded_only_when_a_store_is_opened(tmp_path: Path) -> None:
    program = (
        "import sys; from kraft.world.real import RealWorld; world = RealWorld(); assert 'obstore' not in sys.modules; "
        f"world.objects.open('file://{tmp_path}', timeout_seconds=1.0); assert 'obstore' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
