"""Object stores through the library obstore: S3, Google Cloud Storage, Azure, a folder.

The library is imported when a store is opened: a node without tiered storage needs it neither installed nor loaded. Its
calls block. They run in at most THREADS_MAX threads, which are not those of other blocking work, so that a store that
does not answer delays no other work.
"""

from __future__ import annotations

import errno
import functools
import heapq
import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio
from crc32c import crc32c

from kraft.world.ports import (
    Buffer,
    FilePart,
    ObjectDigest,
    ObjectMissing,
    ObjectRefused,
    ObjectUnreachable,
)

if TYPE_CHECKING:
    import obstore

T = TypeVar("T")

SCHEMES: Final = ("s3", "gs", "az", "file")
PART_BYTES: Final = 8 << 20
"""An object above this size is sent and read in parts of this size."""
PARTS_AT_ONCE: Final = 2
THREADS_MAX: Final = 16
CONNECT_SECONDS_MAX: Final = 10.0
RETRIES_MAX: Final = 3


class RealObjects:
    """Implements `kraft.world.ports.Objects`."""

    __slots__ = ("_limiter",)

    def __init__(self) -> None:
        self._limiter: trio.CapacityLimiter | None = None

    def open(self, uri: str, *, timeout_seconds: float) -> RealObjectStore:
        scheme = uri.partition("://")[0]
        if scheme not in SCHEMES:
            raise ValueError(
                f"{uri!r} is no place for objects: it begins with {', '.join(f'{each}://' for each in SCHEMES)}"
            )
        try:
            import obstore.store
        except ImportError:
            raise ValueError(f"{uri!r} needs the library obstore: pip install 'kraft-node[tiered]'") from None
        settings: dict[str, Any] = {}
        if scheme == "file":
            settings["mkdir"] = True
        else:
            settings["client_options"] = {
                "allow_http": True,  # Where an endpoint is configured as one.
                "timeout": timedelta(seconds=timeout_seconds),
                "connect_timeout": timedelta(seconds=min(timeout_seconds, CONNECT_SECONDS_MAX)),
            }
            settings["retry_config"] = {
                "max_retries": RETRIES_MAX,
                "retry_timeout": timedelta(seconds=timeout_seconds),
            }
        try:
            store = obstore.store.from_url(uri, **settings)
        except (obstore.exceptions.BaseError, OSError, ValueError) as problem:
            raise ValueError(f"{uri!r} cannot be used: {_first_line(problem)}") from problem
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(THREADS_MAX)
        return RealObjectStore(store, self._limiter, timeout_seconds, is_sorted=scheme != "file")


class RealObjectStore:
    """Implements `kraft.world.ports.ObjectStore`. A request that times out continues in its thread until the library's
    own limits end it, and occupies the thread until then."""

    __slots__ = ("_is_sorted", "_limiter", "_store", "_timeout_seconds")

    def __init__(
        self,
        store: obstore.store.ObjectStore,
        limiter: trio.CapacityLimiter,
        timeout_seconds: float,
        *,
        is_sorted: bool,
    ) -> None:
        """`is_sorted`: whether the store lists names in order."""
        self._store = store
        self._limiter = limiter
        self._timeout_seconds = timeout_seconds
        self._is_sorted = is_sorted

    async def put(self, name: str, content: Buffer | FilePart) -> ObjectDigest:
        size = content.size if isinstance(content, FilePart) else len(content)
        return await self._call(functools.partial(_put, self._store, name, content, size), 1 + size // PART_BYTES)

    async def digest(self, name: str) -> ObjectDigest:
        size = crc = 0
        while True:  # To the end of the object: each part is a request with a time limit of its own.
            count, crc = await self._call(functools.partial(_digest_part, self._store, name, size, crc))
            size += count
            if count < PART_BYTES:
                return ObjectDigest(size, crc)

    async def get_range(self, name: str, offset: int, count: int) -> bytes:
        return await self._call(functools.partial(_get_range, self._store, name, offset, count))

    async def list_names(self, prefix: str, after: str, count_max: int) -> list[str]:
        return await self._call(
            functools.partial(_list_names, self._store, prefix, after, count_max, is_sorted=self._is_sorted)
        )

    async def delete(self, name: str) -> None:
        try:
            await self._call(functools.partial(_delete, self._store, name))
        except ObjectMissing:
            pass

    async def _call(self, function: Callable[[], T], parts: int = 1) -> T:
        seconds = self._timeout_seconds * parts
        with trio.move_on_after(seconds):
            return await trio.to_thread.run_sync(
                functools.partial(_translated, function), limiter=self._limiter, abandon_on_cancel=True
            )
        raise ObjectUnreachable(f"no answer within {seconds:g} s")


class SourceFailed(Exception):
    """Raised when the content of a put could not be read."""

    def __init__(self, problem: OSError) -> None:
        super().__init__(str(problem))
        self.problem = problem


def _translated(function: Callable[[], T]) -> T:
    from obstore import exceptions

    try:
        return function()
    except SourceFailed as failed:
        raise failed.problem from None
    except FileNotFoundError as problem:
        raise ObjectMissing(_first_line(problem)) from problem
    except (
        exceptions.PermissionDeniedError,
        exceptions.UnauthenticatedError,
        exceptions.InvalidPathError,
        exceptions.NotSupportedError,
        ValueError,
    ) as problem:
        raise ObjectRefused(_first_line(problem)) from problem
    except (exceptions.BaseError, OSError) as problem:
        raise ObjectUnreachable(_first_line(problem)) from problem


def _first_line(problem: Exception) -> str:
    """The first line of a library error's text; the lines after it are internal details."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


class _Source:
    """Yields a content in parts as the library asks for them, and keeps their total size and CRC."""

    def __init__(self, content: Buffer | FilePart) -> None:
        self._content = content
        self.problem: OSError | None = None
        self.size = 0
        self.crc = 0

    def __iter__(self) -> Iterator[bytes]:
        try:
            for part in self._parts():
                self.size += len(part)
                self.crc = crc32c(part, self.crc)
                yield part
        except OSError as problem:
            self.problem = problem  # The library tells of it in words of its own.
            raise

    def _parts(self) -> Iterator[bytes]:
        if not isinstance(self._content, FilePart):
            yield bytes(self._content)
            return
        path, size = self._content
        with open(path, "rb", buffering=0) as file:
            while size > 0:
                part = file.read(min(size, PART_BYTES))
                if not part:
                    raise OSError(errno.EIO, f"the file is {size} bytes shorter than it should be", path)
                size -= len(part)
                yield part


def _put(store: obstore.store.ObjectStore, name: str, content: Buffer | FilePart, size: int) -> ObjectDigest:
    import obstore

    source = _Source(content)
    try:
        if size <= PART_BYTES:
            obstore.put(store, name, b"".join(source), use_multipart=False)
        else:
            obstore.put(store, name, iter(source), chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)
    except Exception:
        if source.problem is not None:
            raise SourceFailed(source.problem) from None
        raise
    return ObjectDigest(source.size, source.crc)


def _digest_part(store: obstore.store.ObjectStore, name: str, offset: int, crc: int) -> tuple[int, int]:
    """(the size of the part at `offset`, the CRC with it)."""
    part = _get_range(store, name, offset, PART_BYTES)
    return len(part), crc32c(part, crc)


def _get_range(store: obstore.store.ObjectStore, name: str, offset: int, count: int) -> bytes:
    import obstore

    if count <= 0:
        return b""
    try:
        return bytes(obstore.get_range(store, name, start=offset, length=count))
    except obstore.exceptions.BaseError:
        if offset >= obstore.head(store, name)["size"]:  # A range behind the end is an error to stores.
            return b""
        raise


def _list_names(
    store: obstore.store.ObjectStore, prefix: str, after: str, count_max: int, *, is_sorted: bool
) -> list[str]:
    import obstore

    pages = obstore.list(store, prefix, offset=after or None)
    names = (found["path"] for page in pages for found in page)
    return list(itertools.islice(names, count_max)) if is_sorted else heapq.nsmallest(count_max, names)


def _delete(store: obstore.store.ObjectStore, name: str) -> None:
    import obstore

    obstore.delete(store, name)
