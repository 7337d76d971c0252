"""An S3 server in its own process (moto), and a proxy before it that injects faults of networks and stores."""

from __future__ import annotations

import http
import http.client
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jepsen.sandbox import tell_watchdog

BUCKET = "bucket"
START_SECONDS_MAX = 30
ANSWER_SECONDS_MAX = 20
SLOW_SECONDS = 0.3
CHANGES = ("PUT", "POST", "DELETE")
NOT_HANDED_ON = frozenset({"connection", "content-length", "transfer-encoding", "date", "server"})


class Fault(Enum):
    """What the proxy does with requests. `bites` counts the affected requests by these values."""

    NONE = "none"
    OUTAGE = "the connection ends, and the server hears nothing"
    ERROR = "500, and the server hears nothing"
    SLOW = "the answer takes a while"
    TRUNCATED = "the body of a GET ends early"
    LOST_ANSWER = "what is to change changes, and the connection ends"


@dataclass(slots=True)
class S3Server:
    """A running server. Nodes use `endpoint`; `direct` bypasses the proxy."""

    endpoint: str
    direct: str
    fault: Fault = Fault.NONE
    bites: Counter[Fault] = field(default_factory=Counter)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that give a node access."""
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT": self.endpoint,
            "AWS_SESSION_TOKEN": "",
        }

    def names(self) -> list[str]:
        """The names of all objects in the bucket."""
        found: list[str] = []
        more = {"list-type": "2"}
        while True:
            page = self._get(f"?{urllib.parse.urlencode(more)}").decode()
            found += re.findall("<Key>([^<]*)</Key>", page)
            token = re.search("<NextContinuationToken>([^<]*)<", page)
            if token is None:
                return found
            more["continuation-token"] = token[1]

    def content(self, name: str) -> bytes | None:
        """The content of an object; None if it no longer exists: nodes delete objects that they have given up."""
        try:
            return self._get(f"/{urllib.parse.quote(name)}")
        except urllib.error.HTTPError as problem:
            if problem.code != http.HTTPStatus.NOT_FOUND:
                raise
            return None

    def _get(self, what: str) -> bytes:
        # Whatever it says: without it the server shows no object.
        request = urllib.request.Request(f"{self.direct}/{BUCKET}{what}", headers={"Authorization": "AWS key:secret"})
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX) as answer:
            found: bytes = answer.read()
            return found


@contextmanager
def running_s3(host: str = "127.0.0.1") -> Iterator[S3Server]:
    """Run a server with an empty bucket, which nodes reach at `host`; it ends with the block."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    tell_watchdog(process.pid)
    assert process.stderr is not None
    drain = threading.Thread(target=process.stderr.read, name="S3's messages", daemon=True)
    try:
        found = None
        while found is None and (line := process.stderr.readline()):
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found is not None, "it ended before it served"
        # What it writes about each request must not fill the pipe.
        drain.start()
        direct = f"http://127.0.0.1:{found[1]}"
        _make_bucket(direct)
        with _proxy(direct, host) as server:
            yield server
    finally:
        process.kill()
        process.wait()
        if drain.is_alive():
            drain.join()
        process.stderr.close()


def _make_bucket(direct: str) -> None:
    give_up = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            request = urllib.request.Request(f"{direct}/{BUCKET}", method="PUT")
            urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX).close()
            return
        except urllib.error.URLError:
            assert time.monotonic() < give_up, "the server does not serve"
            time.sleep(0.05)


@contextmanager
def _proxy(direct: str, host: str) -> Iterator[S3Server]:
    server = S3Server("", direct)

    class Handler(FaultyProxy):
        s3 = server

    with Listener((host, 0), Handler) as proxy:
        server.endpoint = f"http://{host}:{proxy.server_port}"
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,), name="faulty S3")
        thread.start()
        try:
            yield server
        finally:
            proxy.shutdown()
            thread.join()


class Listener(ThreadingHTTPServer):
    """The proxy's server. It ignores broken connections: its clients are killed and cut off on purpose."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class FaultyProxy(BaseHTTPRequestHandler):
    """Handles one request for each connection, so that a new fault affects the next request."""

    s3: S3Server

    def hand_on(self) -> None:
        fault = self.s3.fault
        wanted = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(wanted)
        if len(body) < wanted:
            return  # Whoever asked is gone: that is no request.
        if fault in (Fault.OUTAGE, Fault.ERROR):
            self.s3.bites[fault] += 1
            if fault == Fault.ERROR:
                self._answer(500, {}, b"", 0)
            return
        status, headers, content = self._ask(body)
        size = int(headers.get("Content-Length", len(content))) if self.command == "HEAD" else len(content)
        if fault == Fault.LOST_ANSWER and self.command in CHANGES:
            self.s3.bites[fault] += 1
            return
        if fault == Fault.SLOW:
            self.s3.bites[fault] += 1
            time.sleep(SLOW_SECONDS)
        if fault == Fault.TRUNCATED and self.command == "GET" and content:
            self.s3.bites[fault] += 1
            content = content[: len(content) // 2]
        self._answer(status, headers, content, size)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = hand_on

    def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.s3.direct.removeprefix("http://"), timeout=ANSWER_SECONDS_MAX)
        try:
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], content: bytes, size: int) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in NOT_HANDED_ON:
                self.send_header(name, value)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
