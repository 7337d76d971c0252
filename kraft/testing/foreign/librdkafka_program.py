"""The child process: creates librdkafka clients and calls their methods. Each line of standard input is one request.

A line is `[object, method, arguments, options, released]`; `values.py` defines how arguments and options are written.
The reply is `[outcome, events]`. `released` are objects that the caller no longer needs; a separate thread ends them.
The outcome is the value returned or the exception raised. Events are the callbacks that librdkafka has made meanwhile,
as `[token, arguments]`, with the token that the caller gave in place of the callback. Object 0 makes clients: its
methods are `Producer`, `Consumer`, `ShareConsumer` and `AdminClient`.
"""

from __future__ import annotations

import concurrent.futures
import faulthandler
import itertools
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient

from kraft.testing.foreign.values import CALLBACKS, Futures, Handle, decode, encode

RESULT_SECONDS_MAX = 60.0
MAKERS: dict[str, Callable[..., Any]] = {
    "Producer": Producer,
    "Consumer": Consumer,
    "ShareConsumer": ShareConsumer,
    "AdminClient": AdminClient,
}


class Program:
    """The clients of this process, by number, and the callbacks not yet reported."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}
        self._numbers = itertools.count(1)
        self._events: list[Any] = []
        self._silent = logging.getLogger("librdkafka")
        self._silent.addHandler(logging.NullHandler())
        self._silent.propagate = False

    def answer(self, line: str) -> str:
        """Run the command of a line and return the reply. An exception of the client is part of the reply."""
        number, method, arguments, options, released = json.loads(line)
        self._release(released)
        try:
            outcome = encode(self._call(number, method, decode(arguments), decode(options)))
        except Exception as problem:  # noqa: BLE001 - whatever a foreign client raises is the caller's to judge.
            outcome = encode(problem)
        events, self._events = self._events, []
        return json.dumps([outcome, events])

    def _call(self, number: int, method: str, arguments: list[Any], options: dict[str, Any]) -> Any:
        options = {name: self._called_back(name, value) for name, value in options.items()}
        if not number:
            settings = {name: self._called_back(name, value) for name, value in arguments[0].items()}
            extra = {"logger": self._silent} if method != "AdminClient" else {}
            return self._kept(MAKERS[method](settings, **extra))
        found = getattr(self._objects[number], method)
        value = found(*map(self._resolved, arguments), **{name: self._resolved(each) for name, each in options.items()})
        if method == "consumer_group_metadata":
            return self._kept(value)
        return _results(value)

    def _release(self, numbers: list[int]) -> None:
        """Drop objects, each in a thread of its own: a client's end waits for its threads."""
        for number in numbers:
            holder = [self._objects.pop(number)]
            threading.Thread(target=holder.clear, daemon=True).start()

    def _kept(self, value: Any) -> Handle:
        number = next(self._numbers)
        self._objects[number] = value
        return Handle(number)

    def _resolved(self, value: Any) -> Any:
        return self._objects[value.number] if isinstance(value, Handle) else value

    def _called_back(self, name: str, token: Any) -> Any:
        """Replace the token of a callback by a function that records its arguments; return other options unchanged."""
        if name not in CALLBACKS:
            return token

        def note(*arguments: Any) -> None:
            told = [each for each in arguments if not isinstance(each, Consumer)]
            self._events.append([token, encode(told)])

        return note


def _results(value: Any) -> Any:
    """Replace the futures in an admin client's answer by their results or errors."""
    if isinstance(value, concurrent.futures.Future):
        return value.result(RESULT_SECONDS_MAX)
    if isinstance(value, dict) and any(isinstance(each, concurrent.futures.Future) for each in value.values()):
        return Futures({key: _result(future) for key, future in value.items()})
    return value


def _result(future: Any) -> tuple[str, Any]:
    try:
        return "ok", future.result(RESULT_SECONDS_MAX)
    except Exception as problem:  # noqa: BLE001 - the caller is told of each item by itself.
        return "error", problem


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    program = Program()
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # What a library prints is not an answer.
    for line in sys.stdin:
        answers.write(program.answer(line) + "\n")
        answers.flush()
    os._exit(0)  # A client that hangs in its end must not keep this process.


if __name__ == "__main__":
    main()
