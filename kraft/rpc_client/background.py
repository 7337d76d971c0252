"""The life of a client that has background work: members of groups and of share groups."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def in_background(
    run: Callable[[trio.Nursery], Awaitable[None]], close: Callable[[BaseException | None], Awaitable[None]]
) -> AsyncIterator[None]:
    """Run `run` while the block runs; it gets the nursery in which it runs. Then await `close`, and cancel `run`.

    `close` gets the exception with which the block has ended, trio.Cancelled included, and None if there was none. An
    error of the block is raised as it is, without a group around it.
    """
    failure: Exception | None = None
    async with trio.open_nursery() as background_nursery:
        background_nursery.start_soon(run, background_nursery)
        ended: BaseException | None = None
        try:
            yield
        except Exception as problem:  # noqa: BLE001 - raised below, outside the nursery, which would wrap it in a group.
            failure = ended = problem
        except BaseException as problem:
            ended = problem
            raise
        finally:
            await close(ended)
            background_nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
