"""Runs functions for asyncio tasks of another thread on a trio loop, and returns their results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import trio

T = TypeVar("T")


class AsyncioBridge:
    """Runs functions on the loop of `token`. Each runs in a task of its own, which continues to its end even if its
    caller is cancelled."""

    def __init__(self, token: trio.lowlevel.TrioToken, name: str = "the node") -> None:
        """`name` is the subject of the error after the loop has stopped."""
        self._token = token
        self._name = name

    async def run(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """The result of `function(*arguments)`, or its exception. Raises ConnectionError if the loop has stopped."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        try:
            self._token.run_sync_soon(partial(self._begin, loop, future, function, arguments))
        except trio.RunFinishedError:
            raise ConnectionError(f"{self._name} has stopped") from None
        return await future

    def tell(self, function: Callable[..., object], *arguments: Any) -> bool:
        """Call `function(*arguments)` on the loop without waiting for it. Returns False, and does nothing, if the loop
        has stopped."""
        try:
            self._token.run_sync_soon(partial(function, *arguments))
        except trio.RunFinishedError:
            return False
        return True

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
        function: Callable[..., Awaitable[Any]],
        arguments: tuple[Any, ...],
    ) -> None:
        trio.lowlevel.spawn_system_task(self._carry_out, loop, future, function, arguments)

    async def _carry_out(
        self,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
        function: Callable[..., Awaitable[Any]],
        arguments: tuple[Any, ...],
    ) -> None:
        try:
            result = await function(*arguments)
        except trio.Cancelled:
            _answer(loop, partial(_fail, future, ConnectionError(f"{self._name} is stopping")))
            raise
        except Exception as problem:  # noqa: BLE001 - the boundary of a task: the caller gets any error.
            _answer(loop, partial(_fail, future, problem))
        else:
            _answer(loop, partial(_succeed, future, result))


def _answer(loop: asyncio.AbstractEventLoop, deliver: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(deliver)
    except RuntimeError:
        return  # The caller's loop has ended, so no task waits.


def _succeed(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], problem: Exception) -> None:
    if not future.done():
        future.set_exception(problem)
