"""A bad cable: frames to and from a node are late, out of order, or duplicated. The kernel here has no netem, so a
process does it.

It runs in the switch's namespace between the node's port and the switch. A TAP device takes the port's place in the
bridge. Frames from the port leave through the TAP, and frames for the TAP go to the port, each after a random delay. A
frame with a longer delay is overtaken. The firewall of the bridge sees the frames as before. The process prints `ready`
at its start, ends with its input, and then prints one line of JSON with its effects (`Counts`).
"""

from __future__ import annotations

import array
import fcntl
import heapq
import json
import os
import random
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
ETH_P_ALL = 3
PACKET_OUTGOING = 4
FRAME_BYTES_MAX = 65536
WAITING_MAX = 20_000
"""Limit of queued frames. Further ones are lost, as in a real queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The faults of each frame, in seconds and chances: late by `delay` and up to `jitter` more, in order; sent twice
    with one chance; held back by another `jitter`, out of order, with another."""

    delay: float = 0.0
    jitter: float = 0.0
    twice: float = 0.0
    overtaken: float = 0.0


@dataclass(slots=True)
class Counts:
    frames: int = 0
    late: int = 0
    twice: int = 0
    overtaken: int = 0
    lost: int = 0


class Queue:
    """The frames under way, by due time. Pure: the time is an argument."""

    def __init__(self, quality: Quality, chance: random.Random) -> None:
        self.quality = quality
        self.counts = Counts()
        self._chance = chance
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._number = 0
        self._newest: dict[int, int] = {}
        self._last_due: dict[int, float] = {}

    def put(self, now: float, way: int, frame: bytes) -> None:
        """Add a frame in one direction (0 or 1)."""
        self.counts.frames += 1
        copies = 1 + (self._chance.random() < self.quality.twice)
        self.counts.twice += copies - 1
        for _ in range(copies):
            if len(self._waiting) >= WAITING_MAX:
                self.counts.lost += 1
                continue
            due = max(
                now + self.quality.delay + self._chance.random() * self.quality.jitter, self._last_due.get(way, 0.0)
            )
            self._last_due[way] = due
            if self._chance.random() < self.quality.overtaken:
                due += self.quality.jitter
            self.counts.late += due > now
            self._number += 1
            heapq.heappush(self._waiting, (due, self._number, way, frame))

    def due(self, now: float) -> list[tuple[int, bytes]]:
        """The frames that are due, in order of their due time."""
        found = []
        while self._waiting and self._waiting[0][0] <= now:
            _, number, way, frame = heapq.heappop(self._waiting)
            self.counts.overtaken += number < self._newest.get(way, 0)
            self._newest[way] = max(number, self._newest.get(way, 0))
            found.append((way, frame))
        return found

    def wait_seconds(self, now: float) -> float | None:
        """The seconds until the next frame is due; None without frames."""
        return max(0.0, self._waiting[0][0] - now) if self._waiting else None


def open_tap(name: str) -> int:
    """Open a TAP device of that name; it is removed when the descriptor is closed."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


class Wire:
    def __init__(self, port: str, tap: str, queue: Queue) -> None:
        self._queue = queue
        self._tap = open_tap(tap)
        self._port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._port.bind((port, 0))
        self._port.setblocking(False)

    def run(self) -> None:
        """Forward frames until standard input ends."""
        poll = select.poll()
        for descriptor in (self._tap, self._port.fileno(), sys.stdin.fileno()):
            poll.register(descriptor, select.POLLIN)
        while True:
            wait = self._queue.wait_seconds(time.monotonic())
            ready = {descriptor for descriptor, _ in poll.poll(None if wait is None else wait * 1000 + 0.5)}
            if sys.stdin.fileno() in ready:
                return
            now = time.monotonic()
            if self._port.fileno() in ready:
                self._take_from_port(now)
            if self._tap in ready:
                self._take_from_tap(now)
            for way, frame in self._queue.due(time.monotonic()):
                self._give(way, frame)

    def _take_from_port(self, now: float) -> None:
        for _ in range(64):
            try:
                frame, address = self._port.recvfrom(FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            if address[2] != PACKET_OUTGOING:
                self._queue.put(now, 0, frame)

    def _take_from_tap(self, now: float) -> None:
        for _ in range(64):
            try:
                self._queue.put(now, 1, os.read(self._tap, FRAME_BYTES_MAX))
            except BlockingIOError:
                return

    def _give(self, way: int, frame: bytes) -> None:
        try:
            if way == 0:
                os.write(self._tap, frame)
            else:
                self._port.send(frame)
        except OSError:
            self._queue.counts.lost += 1  # A cable that is full or just pulled: frames get lost.


def set_offload(device: str, wanted: bool) -> None:
    """Turn the device's offloading of checksums and segmentation on or off. A veth never does that work, which shows
    when frames leave the kernel."""
    command = array.array("B", struct.pack("II", ETHTOOL_STXCSUM, wanted))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP", device.encode(), command.buffer_info()[0]))


def main(arguments: Sequence[str]) -> int:
    if arguments[0] == "offload":
        set_offload(arguments[1], arguments[2] == "1")
        return 0
    port, tap, quality, seed = arguments[1:]
    queue = Queue(Quality(**json.loads(quality)), random.Random(int(seed)))
    wire = Wire(port, tap, queue)
    print("ready", flush=True)
    wire.run()
    print(json.dumps(asdict(queue.counts)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
