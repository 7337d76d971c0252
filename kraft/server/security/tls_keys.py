"""The TLS keys of a node: those of its listeners, and those with which it connects to other nodes.

Files are read at the start of the node, and again when they change; open connections keep their keys. Invalid keys end
a start; a running node keeps its previous ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import trio

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ConfigurationError
from kraft.common.logging import Logger
from kraft.security.certificates import ENDS_SOON_SECONDS, first_expiry
from kraft.security.tls import STORE_BYTES_MAX, TlsProblem, TlsSettings, load_tls
from kraft.world.ports import FileStatus, FileSystem, Listener, Login, SecuredWorld, Tls, World

ENCRYPTED: Final = ("SSL", "SASL_SSL")
LOOK_SECONDS: Final = 5.0
"""Seconds between two checks of the key files. A check reads the status of each file."""


class TlsKeys:
    """The TLS keys of a node, read at its start. Raises ConfigurationError."""

    def __init__(self, world: World, config: NodeConfig) -> None:
        self._world = world
        self._settings: dict[tuple[str, bool], TlsSettings] = {}
        """The settings by (listener name, whether this node is the server on it)."""
        self._current: dict[tuple[str, bool], Tls] = {}
        self._others: dict[str, Callable[[], str]] = {}
        self._seen: dict[str, FileStatus | None] = {}
        self._is_unread = False
        """Whether a file could not be read at the last check. The next check then reads all files again, because a
        change of permissions does not change a file's status."""
        own = [endpoint.name for endpoint in config.listeners]
        others = [config.inter_broker_listener_name, *config.controller_listener_names[:1]]
        wanted = [(name, True) for name in own] + [(name, False) for name in others]
        problems = []
        for name, is_server in wanted:
            if config.security_protocols.get(name) in ENCRYPTED:
                self._settings[name, is_server] = TlsSettings(
                    values=config.tls_values(name),
                    is_server=is_server,
                    prefix=f"listener {name}: ",
                )
        self._seen = self._statuses()
        for key, settings in self._settings.items():
            try:
                self._current[key] = load_tls(settings, self._read)
            except TlsProblem as problem:
                problems.append(str(problem))
        if problems:
            raise ConfigurationError(list(dict.fromkeys(problems)))

    def of_listener(self, name: str) -> Tls | None:
        """The keys of a listener of this node; None if it does not use TLS."""
        return self._current.get((name, True))

    def watch(self, name: str, certificate_chain: Callable[[], str]) -> None:
        """Include a chain that is loaded elsewhere in `expiries`. `certificate_chain` returns it in PEM form."""
        self._others[name] = certificate_chain

    def expiries(self) -> dict[str, int]:
        """The expiry of the first certificate that this node presents, in seconds since 1970, by listener.

        A listener of other nodes is included if this node presents a certificate there as a client.
        """
        chains = [(name, tls.certificate_chain) for (name, _), tls in self._current.items()]
        chains += [(name, chain()) for name, chain in self._others.items()]
        ends: dict[str, int] = {}
        for name, chain in sorted(chains):
            end = first_expiry(chain)
            if end is not None:
                ends[name] = min(end, ends.get(name, end))
        return ends

    def towards(self, name: str) -> Tls | None:
        """The keys with which this node connects to other nodes' listeners of that name; None if they do not use
        TLS."""
        return self._current.get((name, False))

    def world_towards(self, name: str, login: Login | None = None) -> World:
        """Return a world for connections to other nodes' listeners of that name. These connections use TLS if the
        listener requires it, and authenticate with `login`."""
        if (name, False) not in self._settings:
            return self._world if login is None else SecuredWorld(self._world, None, login)
        return SecuredWorld(self._world, lambda: self._current[name, False], login)

    def start(self, nursery: trio.Nursery, listeners: Mapping[str, Listener], log: Logger) -> None:
        """Start watching the key files, if there are any."""
        self._warn_of_ends(log)
        if self._settings:
            nursery.start_soon(self._follow_files, listeners, log)

    def _warn_of_ends(self, log: Logger) -> None:
        now = self._world.clock.wall_ms() // 1000
        for name, end in self.expiries().items():
            if (event := event_of_end(end, now)) is not None:
                log.warning(event, listener=name, ends=datetime.fromtimestamp(end, UTC).isoformat())

    async def _follow_files(self, listeners: Mapping[str, Listener], log: Logger) -> None:
        """Reload keys from files that change, until cancelled."""
        while True:
            await self._world.clock.sleep(LOOK_SECONDS)
            statuses = self._statuses()
            if statuses != self._seen or self._is_unread:
                has_changed, self._seen, self._is_unread = statuses != self._seen, statuses, False
                await self._renew(listeners, log, tells_problems=has_changed)

    async def _renew(self, listeners: Mapping[str, Listener], log: Logger, *, tells_problems: bool) -> None:
        for (name, is_server), settings in self._settings.items():
            try:
                # In a thread: opening a PKCS#12 file takes a tenth of a second of hashing.
                tls = await self._world.threads.run(load_tls, settings, self._read)
                if tls == self._current[name, is_server]:
                    continue
                if is_server:
                    listeners[name].take_tls(tls)
            except ValueError as problem:
                if tells_problems:
                    log.error(
                        "changed TLS keys are invalid: the previous keys stay in force",
                        listener=name,
                        reason=str(problem),
                    )
                continue
            self._current[name, is_server] = tls
            self._warn_of_ends(log)
            log.info("TLS keys reloaded", listener=name, towards="clients" if is_server else "other nodes")
            await trio.lowlevel.checkpoint()

    def _statuses(self) -> dict[str, FileStatus | None]:
        return statuses_of(self._world.files, (path for each in self._settings.values() for path in each.files))

    def _read(self, path: str) -> bytes:
        try:
            return read_store(self._world.files, path)
        except OSError:
            self._is_unread = True
            raise


def event_of_end(end: int, now: int) -> str | None:
    """The log event for a certificate that expires at `end`; None while it is valid for long enough. Both in seconds
    since 1970."""
    if end - now >= ENDS_SOON_SECONDS:
        return None
    return "a certificate has expired" if end <= now else "a certificate expires soon"


def statuses_of(files: FileSystem, paths: Iterable[str]) -> dict[str, FileStatus | None]:
    """The status of each file, which changes when the file does; None for one that cannot be read."""
    return {path: _status(files, path) for path in dict.fromkeys(paths)}


def read_store(files: FileSystem, path: str) -> bytes:
    """A keystore's content; at most one byte more than the largest allowed. Raises OSError."""
    file = files.open(path, writable=False)
    try:
        return file.pread(STORE_BYTES_MAX + 1, 0)
    finally:
        file.close()


def _status(files: FileSystem, path: str) -> FileStatus | None:
    try:
        return files.status(path)
    except OSError:
        return None
