"""A leader that serves a snapshot: between the decision and the answer the snapshot may be trimmed, or the process
run out of descriptors."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import trio

from kraft.common.errors import OutOfResources
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft import wire_requests
from kraft.raft.core import messages as core
from kraft.raft.snapshot.snapshot_answer import with_bytes
from tests.unit.raft.builders import key_of
from tests.unit.raft.members import Member, alone, running, until

SNAPSHOT = OffsetAndEpoch(6, 1)


async def _with_snapshot(member: Member, *, last_contained_timestamp_ms: int) -> OffsetAndEpoch:
    """A few records more, and a snapshot of all there is."""
    last = member.driver.append(1, ["one", "two", "three"])
    await until(lambda: member.listener.end_offset == last + 1)
    writer = member.driver.create_snapshot(OffsetAndEpoch(last + 1, 1), last_contained_timestamp_ms)
    assert writer is not None
    writer.append(["summary"])
    await writer.freeze()
    writer.close()
    return OffsetAndEpoch(last + 1, 1)


def test_a_snapshot_deleted_before_its_response_is_sent_is_not_found(tmp_path: Path) -> None:
    async def body() -> None:
        member = alone(tmp_path, retention_ms=1 << 60)
        errors: list[int] = []
        async with running(member) as nursery:
            await until(lambda: member.leads)
            first = await _with_snapshot(member, last_contained_timestamp_ms=1)
            await _with_snapshot(member, last_contained_timestamp_ms=1)
            await until(lambda: not member.driver._clean_wanted)
            object.__setattr__(member.driver.config, "retention_ms", 0)

            async def ask() -> None:
                request = wire_requests.TO_WIRE[core.FetchSnapshotRequest](
                    core.FetchSnapshotRequest(key_of(7), 1, first, 0)
                )
                answer = await member.driver.requests.serve(request)
                errors.append(answer.topics[0].partitions[0].error_code)

            nursery.start_soon(ask)
            await trio.lowlevel.checkpoint()  # It is accepted now; files are trimmed before answers leave.
            member.driver.clean()
            await until(lambda: errors)
            assert errors == [ErrorCode.SNAPSHOT_NOT_FOUND]
            member.driver.append(1, ["after"])
            await until(lambda: member.listener.records[-1] == "after")

    trio.run(body)


class Unreadable:
    """A storage whose files cannot be opened."""

    def __init__(self, problem: Exception) -> None:
        self._problem = problem

    def read_snapshot(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> Any:
        raise self._problem


def test_a_snapshot_fetch_without_a_free_descriptor_gets_a_retriable_error() -> None:
    asked = core.FetchSnapshotResponse(core.LeaderHint(1, 1, ()), ErrorCode.NONE, SNAPSHOT)
    assert (
        with_bytes(asked, Unreadable(OutOfResources("no descriptor")), [SNAPSHOT]).error
        == ErrorCode.KAFKA_STORAGE_ERROR
    )  # type: ignore[arg-type]
    with pytest.raises(OSError, match="cannot be opened"):
        with_bytes(asked, Unreadable(OSError(errno.EIO, "cannot be opened")), [SNAPSHOT])  # type: ignore[arg-type]
