"""Notifications to systemd (sd_notify(3)): that the process serves, that it stops, and that its loop is alive.

Without NOTIFY_SOCKET in the environment nothing is sent.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

from kraft.world.ports import Clock

SOCKET: Final = "NOTIFY_SOCKET"
WATCHDOG: Final = "WATCHDOG_USEC"
Log = Callable[[Mapping[str, Any]], None]


class ServiceManager:
    """`socket_path` is the socket for the datagrams, in the abstract name space if it begins with @."""

    def __init__(self, socket_path: str, watchdog_seconds: float | None, log: Log) -> None:
        self._address = "\0" + socket_path[1:] if socket_path.startswith("@") else socket_path
        self._watchdog_seconds = watchdog_seconds
        self._log = log
        self._has_failed = False

    def serving(self, status: str) -> None:
        """Notify that the process has started. `status` is what `systemctl status` shows."""
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping")

    async def keep_alive(self, clock: Clock) -> None:
        """Notify the watchdog twice in its timeout, until cancelled. Returns immediately if there is no watchdog."""
        while self._watchdog_seconds is not None:
            self._send("WATCHDOG=1")
            await clock.sleep(self._watchdog_seconds / 2)

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as datagrams:
                datagrams.setblocking(False)
                datagrams.sendto(message.encode(), self._address)
        except OSError as problem:
            if not self._has_failed:  # Once is enough: it ends the process if it takes that for silence.
                self._has_failed = True
                self._log({"level": "warning", "event": "service_manager_unreachable", "reason": str(problem)})


def service_manager(environment: MutableMapping[str, str], log: Log) -> ServiceManager:
    """The service manager that started this process. Its variables are removed from `environment`, so that child
    processes do not inherit them."""
    path, watchdog = environment.pop(SOCKET, ""), environment.pop(WATCHDOG, "")
    is_time = path != "" and watchdog.isdecimal() and int(watchdog) > 0
    return ServiceManager(path, int(watchdog) / 1_000_000 if is_time else None, log)
