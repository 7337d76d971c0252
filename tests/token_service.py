"""An authority over HTTP or HTTPS, for tests: its keys at /keys, and at /token tokens for who shows id and secret."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.tokens import authority


class TokenService:
    """Answers until the end of `token_service`."""

    def __init__(self) -> None:
        self.lifetime = 300.0
        self.secrets = {"node": "node-secret", "admin": "admin-secret"}
        self.status = 200
        """Of answers at /token; not 200: the authority is out of order."""
        self.asked: list[tuple[str, str]] = []
        """Client and scope of each token that was given."""
        self.url = ""

    def token(self, client: str) -> str:
        now = time.time()
        return authority().sign(now, sub=client, exp=now + self.lifetime, iss="https://issuer", aud="kafka")

    def _answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if self.status != 200:
            return self.status, {"error": "temporarily_unavailable"}
        if self.secrets.get(client) != secret or form.get("grant_type") != ["client_credentials"]:
            return 401, {"error": "invalid_client", "error_description": f"not {secret}"}
        self.asked.append((client, form.get("scope", [""])[0]))
        return 200, {"access_token": self.token(client), "token_type": "Bearer", "expires_in": int(self.lifetime)}

    def handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(200, authority().jwks.encode())

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                status, document = service._answer(self.headers["Authorization"], form)
                self._send(status, json.dumps(document).encode())

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing is told."""

        return Handler


@contextmanager
def token_service(keys: Path | None = None) -> Iterator[TokenService]:
    """`keys`: a PEM file with key and certificates, for HTTPS."""
    service = TokenService()
    server = ThreadingHTTPServer(("127.0.0.1", 0), service.handler())
    if keys is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    service.url = f"{'http' if keys is None else 'https'}://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
