"""The TLS keys of the HTTP admin (`kraft.admin.ssl.*`): read at the start of the process, and again when their files
change. Open connections keep their keys."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

from kraft.common.config.keys.admin_keys import PREFIX
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ConfigurationError
from kraft.security.certificates import first_expiry
from kraft.security.tls import TlsSettings, load_tls
from kraft.server.http_admin.logins import principals_of_certificates
from kraft.server.security.tls_keys import LOOK_SECONDS, event_of_end, read_store, statuses_of
from kraft.world.ports import Tls, World
from kraft.world.real.tls import server_context


class AdminTls:
    """The keys of an HTTPS admin. Raises ConfigurationError."""

    def __init__(self, world: World, config: NodeConfig) -> None:
        self._world = world
        self._settings = TlsSettings(values=config.admin_tls_values(), is_server=True, prefix=PREFIX)
        self._seen = statuses_of(world.files, self._settings.files)
        try:
            self._tls, self._context = self._load()
        except ValueError as problem:
            raise ConfigurationError([str(problem)]) from problem
        self._warn_of_end()

    def certificate_chain(self) -> str:
        """The certificate chain for the next connection, in PEM form."""
        return self._tls.certificate_chain

    def context(self) -> ssl.SSLContext:
        """The TLS context for the next connection. Called from the admin's thread."""
        return self._context

    async def follow_files(self) -> None:
        """Reload keys from files that change, until cancelled. Invalid keys are logged and change nothing."""
        while True:
            await self._world.clock.sleep(LOOK_SECONDS)
            statuses = statuses_of(self._world.files, self._settings.files)
            if statuses == self._seen:
                continue
            self._seen = statuses
            try:
                # In a thread: opening a PKCS#12 file takes a tenth of a second of hashing.
                tls, context = await self._world.threads.run(self._load)
            except ValueError as problem:
                self._tell(
                    "error", "changed TLS keys are invalid: the previous keys stay in force", reason=str(problem)
                )
                continue
            if tls != self._tls:
                self._tls, self._context = tls, context
                self._warn_of_end()
                self._tell("info", "TLS keys reloaded")

    def _load(self) -> tuple[Tls, ssl.SSLContext]:
        tls = load_tls(self._settings, lambda path: read_store(self._world.files, path))
        try:
            return tls, server_context(tls)
        except ValueError as problem:
            raise ValueError(f"{PREFIX}ssl: {problem}") from problem

    def _warn_of_end(self) -> None:
        end = first_expiry(self._tls.certificate_chain)
        event = None if end is None else event_of_end(end, self._world.clock.wall_ms() // 1000)
        if end is not None and event is not None:
            self._tell("warning", event, ends=datetime.fromtimestamp(end, UTC).isoformat())

    def _tell(self, level: str, event: str, **fields: str) -> None:
        self._world.log_sink({"level": level, "logger": "http_admin", "event": event, **fields})


def admin_tls(world: World, config: NodeConfig) -> AdminTls | None:
    """The keys of the HTTP admin; None if it is off or uses plain HTTP. Raises ConfigurationError."""
    if config.admin_address is None or not config.admin_is_encrypted:
        return None
    principals_of_certificates(config)
    return AdminTls(world, config)
