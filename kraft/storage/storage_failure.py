"""Maps every OSError of the storage engine to what the caller must do about it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from kraft.common.errors import ApiError, OutOfResources, StorageError
from kraft.protocol.error_codes import ErrorCode

PASSING_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that do not mean a broken disk: space, descriptors or memory may be available again later."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


def storage_failure(problem: OSError, what: str) -> ApiError | StorageError:
    """Map a temporary error to a refusal of this request (KAFKA_STORAGE_ERROR). Any other error takes the log directory
    offline."""
    if problem.errno in PASSING_ERRORS:
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: out of resources: {problem}")
    return StorageError(f"{what}: {problem}")


def refuse_if_passing(problem: OSError, what: str) -> None:
    """Raises OutOfResources for a temporary error; returns for any other. Not for syncs: a failed sync is never
    retried."""
    if problem.errno in PASSING_ERRORS:
        raise OutOfResources(f"{what}: out of resources: {problem}") from problem


def is_out_of_space(problem: OutOfResources) -> bool:
    """Whether the disk or the owner's quota was full, rather than descriptors or memory missing."""
    return isinstance(problem.__cause__, OSError) and problem.__cause__.errno in NO_SPACE


@contextmanager
def passing_refused(what: str) -> Iterator[None]:
    """Context manager that turns a temporary error into OutOfResources and passes on any other. Not for syncs: a failed
    sync is never retried."""
    try:
        yield
    except OSError as problem:
        refuse_if_passing(problem, what)
        raise


@contextmanager
def suppress_passing() -> Iterator[None]:
    """Context manager that ignores temporary errors, for work that can be done later."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in PASSING_ERRORS:
            raise


@contextmanager
def no_descriptor_refused(what: str) -> Iterator[None]:
    """Context manager that converts only running out of descriptors, which happens before any sync. For a call that
    opens, syncs and closes a file."""
    try:
        yield
    except OSError as problem:
        if problem.errno in NO_DESCRIPTOR:
            refuse_if_passing(problem, what)
        raise


def upkeep_failure(problem: OSError, what: str) -> StorageError:
    """The error for a failed read or a failed background write (checkpoints, retention, cleaning)."""
    if problem.errno in PASSING_ERRORS:
        return OutOfResources(f"{what}: out of resources: {problem}")
    return StorageError(f"{what}: {problem}")
