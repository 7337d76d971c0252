"""One answer to every OSError of the storage engine: what the caller must do about it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from kraft.common.errors import ApiError, OutOfResources, StorageError
from kraft.protocol.error_codes import ErrorCode

PASSING_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""What says nothing about the disk: there may be room, descriptors and memory again later."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


def storage_failure(problem: OSError, what: str) -> ApiError | StorageError:
    """What passes refuses this one request (KAFKA_STORAGE_ERROR); anything else takes the log directory offline."""
    if problem.errno in PASSING_ERRORS:
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: out of resources: {problem}")
    return StorageError(f"{what}: {problem}")


def refuse_if_passing(problem: OSError, what: str) -> None:
    """Raises OutOfResources for an error that passes; returns for any other. Not for syncs: a sync that failed is
    never tried again."""
    if problem.errno in PASSING_ERRORS:
        raise OutOfResources(f"{what}: out of resources: {problem}") from problem


def is_out_of_space(problem: OutOfResources) -> bool:
    """Whether the disk, or the owner's share of it, was full; not if descriptors or memory were missing."""
    return isinstance(problem.__cause__, OSError) and problem.__cause__.errno in NO_SPACE


@contextmanager
def passing_refused(what: str) -> Iterator[None]:
    """Around a piece of work: OutOfResources takes the place of an error that passes, any other goes on as it is.
    Not for syncs, as above."""
    try:
        yield
    except OSError as problem:
        refuse_if_passing(problem, what)
        raise


@contextmanager
def suppress_passing() -> Iterator[None]:
    """Around what may as well be done another time."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in PASSING_ERRORS:
            raise


@contextmanager
def no_descriptor_refused(what: str) -> Iterator[None]:
    """Convert only errors of running out of descriptors, which come before anything is synced. For a call that opens,
    syncs and closes a file at once."""
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
