"""`Producer`, `Consumer`, `ShareConsumer` and `AdminClient` of confluent_kafka in a process of their own.

Methods have the names and parameters of confluent_kafka, so a test changes one import. Differences:

- Every call ends. After its own timeout, or `CALL_SECONDS_MAX`, plus `GRACE_SECONDS`, it raises `Hung`.
- Callbacks run within the next call to a client of the same process, in the thread that makes the call.
- The futures that the admin client returns are done already.
- Clients made by one thread share a process, since their calls follow one another anyway. If one hangs, all of them are
  gone, and the next client gets a new process. A client that works in another thread than its maker's, or that is to
  die alone, gets its own process: `Producer(..., process=ForeignProcess())`.
- `PROCESSES.close()` of `process.py` ends all running processes, at the end of a test or of a module of tests.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Final, Self

from kraft.testing.foreign.process import PROCESSES, ForeignProcess
from kraft.testing.foreign.values import CALLBACKS

MAKER: Final = 0
"""The object number of a command that creates a client instead of calling one."""
CALL_SECONDS_MAX: Final = 75.0
"""Timeout of a call without its own: longer than librdkafka's longest default, 60 s."""
GRACE_SECONDS: Final = 15.0
"""How much later than its timeout a call may end, on a busy machine."""
IMMEDIATE: Final = frozenset(
    {
        "produce",
        "subscribe",
        "unsubscribe",
        "assign",
        "assignment",
        "position",
        "pause",
        "resume",
        "begin_transaction",
        "acknowledge_offset",
    }
)
"""Methods that never block."""
TIMEOUT_PLACE: Final = {
    "poll": 0,
    "commit_sync": 0,
    "flush": 0,
    "init_transactions": 0,
    "commit_transaction": 0,
    "abort_transaction": 0,
    "consume": 1,
    "committed": 1,
    "offsets_for_times": 1,
    "get_watermark_offsets": 1,
    "list_topics": 1,
    "send_offsets_to_transaction": 2,
}
"""Position of the timeout (seconds) among a method's arguments, unless it is given by name."""


_SERIALS: Final = count()
_CLIENTS: Final[weakref.WeakValueDictionary[int, Client]] = weakref.WeakValueDictionary()
"""Clients of all processes by serial number. A response may include the callback of another client."""


class Client:
    """A client object of the child process, named by its number there. A method that this class lacks is called on that
    object.

    The object is released when a `with` block ends or when nothing refers to the client any more, even with requests
    under way.
    """

    def __init__(self, kind: str, settings: Mapping[str, Any], process: ForeignProcess | None = None) -> None:
        self.process = process or PROCESSES.of_thread()
        self._number = MAKER
        self._callbacks: dict[int, Callable[..., Any]] = {}
        self._numbers = count()
        self._serial = next(_SERIALS)
        _CLIENTS[self._serial] = self
        self._number = self._call(kind, (self._with_tokens(settings),), {}).number
        self._release = weakref.finalize(self, self.process.release, self._number)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *arguments, **options: self._call(method, arguments, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def __len__(self) -> int:
        return int(self._call("__len__", (), {}))

    def __bool__(self) -> bool:
        return True

    def _with_tokens(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options with a token in place of each callback; the child names the token when the callback is
        called."""
        made = dict(options)
        for name in CALLBACKS:
            if made.get(name) is not None:
                number = next(self._numbers)
                self._callbacks[number] = made[name]
                made[name] = [self._serial, number, name == "on_delivery"]
        return made

    def _call(self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        seconds = _timeout(method, arguments, options) + GRACE_SECONDS
        outcome, events = self.process.ask(self._number, method, tuple(arguments), self._with_tokens(options), seconds)
        for token, told in events:
            client = _CLIENTS.get(token[0])
            if client is not None:
                client.call_back(token[1], told, once=token[2])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def call_back(self, number: int, told: Sequence[Any], *, once: bool) -> None:
        """Call the caller's function with the arguments of librdkafka's callback. With `once` the function is then
        forgotten."""
        callback = self._callbacks.pop(number) if once else self._callbacks[number]
        callback(*told)


class Producer(Client):
    """A producer. `flush` returns the number of messages still under way."""

    def __init__(self, settings: Mapping[str, Any], *, process: ForeignProcess | None = None) -> None:
        super().__init__("Producer", settings, process)


class Consumer(Client):
    """A consumer. Rebalance callbacks get this object first, as in confluent_kafka."""

    def __init__(self, settings: Mapping[str, Any], *, process: ForeignProcess | None = None) -> None:
        super().__init__("Consumer", settings, process)

    def subscribe(self, topics: Sequence[str], **callbacks: Callable[..., Any]) -> None:
        with_self = {name: partial(callback, self) for name, callback in callbacks.items()}
        self._call("subscribe", (list(topics),), with_self)


class ShareConsumer(Client):
    """A member of a share group. A message is acknowledged by its topic, partition and offset."""

    def __init__(self, settings: Mapping[str, Any], *, process: ForeignProcess | None = None) -> None:
        super().__init__("ShareConsumer", settings, process)


class AdminClient(Client):
    """An admin client. Results for several items are a map of futures that are done already."""

    def __init__(self, settings: Mapping[str, Any], *, process: ForeignProcess | None = None) -> None:
        super().__init__("AdminClient", settings, process)


def _timeout(method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> float:
    """The seconds after which librdkafka itself gives up on the call."""
    if method in IMMEDIATE:
        return 0.0
    place = TIMEOUT_PLACE.get(method, len(arguments))
    given = arguments[place] if place < len(arguments) else options.get("timeout")
    return CALL_SECONDS_MAX if given is None or given < 0 else float(given)
