"""Object stores in memory. They belong to no node's machine, and outlive every node.

A request that has left its node is independent of the node: it may take effect long after the node timed out or died.
So may a request whose response is lost.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from crc32c import crc32c

from kraft.world.ports import (
    Buffer,
    Clock,
    FilePart,
    FileSystem,
    ObjectDigest,
    ObjectError,
    ObjectMissing,
    ObjectRefused,
    ObjectUnreachable,
)
from kraft.world.simulated.node import Node, Parking
from kraft.world.simulated.threads import SimulatedThreads
from kraft.world.simulated.time import VirtualTime
from kraft.world.simulated.trace import digest_of

T = TypeVar("T")
DELAY_SECONDS_MEAN = 0.02


@dataclass(slots=True)
class ObjectFaults:
    """Faults of an object store. Rates are probabilities per request."""

    delay_mean: float = DELAY_SECONDS_MEAN  # One way, exponentially distributed.
    failure_rate: float = 0.0  # The store answers that it failed, and did nothing.
    lost_answer_rate: float = 0.0  # What was asked for is done, and no answer comes.
    late_rate: float = 0.0  # The request takes `late_seconds` to arrive.
    late_seconds: float = 60.0
    damage_rate: float = 0.0  # One byte of a stored object is changed.
    refuses: bool = False


class ObjectServer:
    """One object store. `objects` is its content. `bites` counts the effects of its faults."""

    def __init__(self, time: VirtualTime, chance: random.Random) -> None:
        self._time = time
        self._random = chance
        self.objects: dict[str, bytes] = {}
        self.faults = ObjectFaults()
        self.bites: Counter[str] = Counter()
        self._numbers = count()
        self._waiting: dict[int, Callable[[ObjectError], None]] = {}
        """Functions that fail the requests without a response so far, by request number."""

    def send(self, effect: Callable[[], T], answer: Callable[[T | ObjectError], None]) -> None:
        """Apply `effect` at the store after a delay, and pass the result to `answer` after another one, or never."""
        faults, number = self.faults, next(self._numbers)
        self._waiting[number] = answer
        delay = self._delay()
        if self._strikes("late", faults.late_rate):
            delay += faults.late_seconds
        is_lost = self._strikes("lost answer", faults.lost_answer_rate)

        def arrive() -> None:
            result: T | ObjectError
            if faults.refuses:
                self.bites["refusal"] += 1
                result = ObjectRefused("the store refuses")
            elif self._strikes("failure", faults.failure_rate):
                result = ObjectUnreachable("the store failed")
            else:
                try:
                    result = effect()
                except ObjectError as problem:
                    result = problem
            if not is_lost:
                self._time.call_after(self._delay(), lambda: tell(result))

        def tell(result: T | ObjectError) -> None:
            if self._waiting.pop(number, None) is not None:
                answer(result)

        self._time.call_after(delay, arrive)

    def break_connections(self) -> None:
        """Fail every waiting request without a response. The effect of the request happens nevertheless."""
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer(ObjectUnreachable("the connection broke"))

    def put(self, name: str, content: bytes) -> None:
        if content and self._strikes("damage", self.faults.damage_rate):
            at = self._random.randrange(len(content))
            content = content[:at] + bytes((content[at] ^ 1,)) + content[at + 1 :]
        self.objects[name] = content

    def get(self, name: str) -> bytes:
        if name not in self.objects:
            raise ObjectMissing(name)
        return self.objects[name]

    def list_names(self, prefix: str, after: str, count_max: int) -> list[str]:
        folder = prefix.rstrip("/") + "/" if prefix else ""
        return sorted(name for name in self.objects if name.startswith(folder) and name > after)[:count_max]

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    def _strikes(self, what: str, rate: float) -> bool:
        if rate and self._random.random() < rate:
            self.bites[what] += 1
            return True
        return False

    def _delay(self) -> float:
        return self._random.expovariate(1 / self.faults.delay_mean) if self.faults.delay_mean else 0.0


class ObjectServers:
    """The stores of a universe by their URI. Each store is created on first use."""

    def __init__(self, time: VirtualTime, chance: random.Random) -> None:
        self._time = time
        self._random = chance
        self._servers: dict[str, ObjectServer] = {}

    def at(self, uri: str) -> ObjectServer:
        if uri not in self._servers:
            self._servers[uri] = ObjectServer(self._time, self._random)
        return self._servers[uri]


class SimulatedObjects:
    """Implements `kraft.world.ports.Objects` for one life of a node."""

    __slots__ = ("_clock", "_files", "_node", "_servers", "_threads")

    def __init__(
        self, servers: ObjectServers, node: Node, files: FileSystem, threads: SimulatedThreads, clock: Clock
    ) -> None:
        self._servers = servers
        self._node = node
        self._files = files
        self._threads = threads
        self._clock = clock

    def open(self, uri: str, *, timeout_seconds: float) -> SimulatedObjectStore:
        if "://" not in uri:
            raise ValueError(f"{uri!r} is no place for objects")
        return SimulatedObjectStore(
            self._servers.at(uri), self._node, self._files, self._threads, self._clock, timeout_seconds
        )


class SimulatedObjectStore:
    """Implements `kraft.world.ports.ObjectStore`."""

    __slots__ = ("_clock", "_files", "_node", "_server", "_threads", "_timeout_seconds")

    def __init__(
        self,
        server: ObjectServer,
        node: Node,
        files: FileSystem,
        threads: SimulatedThreads,
        clock: Clock,
        timeout_seconds: float,
    ) -> None:
        self._server = server
        self._node = node
        self._files = files
        self._threads = threads
        self._clock = clock
        self._timeout_seconds = timeout_seconds

    async def put(self, name: str, content: Buffer | FilePart) -> ObjectDigest:
        if isinstance(content, FilePart):
            data = await self._threads.run(_read_part, self._files, content)
        else:
            data = bytes(content)
        self._node.enter("object put", name, *digest_of((data,)))
        await self._ask(lambda: self._server.put(name, data))
        return ObjectDigest(len(data), crc32c(data))

    async def digest(self, name: str) -> ObjectDigest:
        self._node.enter("object digest", name)
        data = await self._ask(lambda: self._server.get(name))
        return ObjectDigest(len(data), crc32c(data))

    async def get_range(self, name: str, offset: int, count: int) -> bytes:
        self._node.enter("object get", name, offset, count)
        data = await self._ask(lambda: self._server.get(name))
        return data[offset : offset + max(0, count)]

    async def list_names(self, prefix: str, after: str, count_max: int) -> list[str]:
        self._node.enter("object list", prefix, after, count_max)
        return await self._ask(lambda: self._server.list_names(prefix, after, count_max))

    async def delete(self, name: str) -> None:
        self._node.enter("object delete", name)
        await self._ask(lambda: self._server.delete(name))

    async def _ask(self, effect: Callable[[], T]) -> T:
        """Send a request and wait for its response. Raises ObjectError."""
        answered = Parking(self._node)
        results: list[T | ObjectError] = []

        def answer(result: T | ObjectError) -> None:
            results.append(result)
            answered.wake_all()

        self._server.send(effect, answer)
        with self._clock.move_on_after(self._timeout_seconds):
            await answered.wait()
        if not results:
            raise ObjectUnreachable(f"no answer within {self._timeout_seconds:g} s")
        result = results[0]
        self._node.note("object answer", type(result).__name__)
        if isinstance(result, ObjectError):
            raise result
        return result


def _read_part(files: FileSystem, part: FilePart) -> bytes:
    file = files.open(part.path, writable=False)
    try:
        data = file.pread(part.size, 0)
    finally:
        file.close()
    if len(data) < part.size:
        raise OSError(errno.EIO, "the file is shorter than it should be", part.path)
    return data
