"""A context manager on the client's loop, held open from asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar

import trio

from kraft.common.errors import KraftError
from kraft.world.asyncio_bridge import AsyncioBridge

T = TypeVar("T")
R = TypeVar("R")


class ClientLoop(Protocol):
    """The loop on which the client runs."""

    async def on_loop(self, function: Callable[[], Awaitable[R]]) -> R:
        """Run `function` on the loop. Returns and raises as the function does."""

    @property
    def bridge(self) -> AsyncioBridge: ...

    @property
    def nursery(self) -> trio.Nursery: ...


class RemoteContext(Generic[T]):
    """A context manager that is open in a task of the client's loop between `enter` and `leave`."""

    def __init__(self, loop: ClientLoop, make: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._loop = loop
        self._make = make
        self._value: T | None = None
        self._leave = self._left = trio.Event()
        self._fails = False
        self._problem: BaseException | None = None

    @property
    def value(self) -> T:
        """The value that the context manager returned on entry."""
        if self._value is None:
            raise KraftError("it is not open: use it within `async with`")
        return self._value

    async def enter(self) -> None:
        """Enter the context manager. Raises its errors. If the calling task is cancelled, the context manager is left
        as soon as it has been entered."""
        self._leave, self._left, self._fails, self._problem = trio.Event(), trio.Event(), False, None
        try:
            await self._loop.on_loop(self._begin)
        except asyncio.CancelledError:
            self._loop.bridge.tell(self._abandon)
            raise

    async def leave(self, *, fails: bool) -> None:
        """Leave the context manager. `fails`: as after a block that raised. Raises its errors, unless `fails`."""
        await self._loop.on_loop(lambda: self._end(fails))
        if self._problem is not None and not fails:
            raise self._problem

    async def ended(self) -> BaseException | None:
        """Wait on the client's loop until the context manager is left, or has ended by itself. Returns the error with
        which it ended, if any."""
        await self._left.wait()
        return self._problem

    async def _begin(self) -> None:
        ready = trio.Event()
        self._loop.nursery.start_soon(self._hold, ready)
        await ready.wait()
        if self._problem is not None:
            raise self._problem

    def _abandon(self) -> None:
        self._fails = True
        self._leave.set()

    async def _end(self, fails: bool) -> None:
        self._fails = fails
        self._leave.set()
        await self._left.wait()

    async def _hold(self, ready: trio.Event) -> None:
        try:
            async with self._make() as self._value:
                ready.set()
                await self._leave.wait()
                if self._fails:
                    raise _BlockFailed
        except _BlockFailed:
            pass
        except Exception as problem:  # noqa: BLE001 - the boundary of a task: the caller gets any error.
            self._problem = problem
        finally:
            self._value = None
            ready.set()
            self._left.set()


class _BlockFailed(Exception):
    """Raised inside the context manager when the block on the asyncio side raised."""
