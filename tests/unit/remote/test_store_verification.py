"""What the verification of a store names, and that it changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kraft.remote.store_verification import (
    DAMAGED,
    LEFT_OVER,
    MISSING,
    ORPHAN,
    WRONG_SIZE,
    StoreVerification,
)
from tests.unit.replication.tiers.tiered_broker import URI, Tiered, fill, play

Objects = dict[str, bytes]


def first(objects: Objects, suffix: str) -> str:
    return min(name for name in objects if name.endswith(suffix))


def loses(objects: Objects, suffix: str) -> None:
    del objects[first(objects, suffix)]


def changes(objects: Objects, change: Callable[[bytes], bytes]) -> None:
    name = first(objects, ".log")
    objects[name] = change(objects[name])


def gets(objects: Objects, name: str) -> None:
    objects[name] = b"x"


STRANGE_ID = "A" * 22

CASES: list[tuple[Callable[[Objects], None], bool, list[str]]] = [
    (lambda objects: None, False, []),
    (lambda objects: None, True, []),
    (lambda objects: loses(objects, ".log"), False, [MISSING]),
    (lambda objects: loses(objects, ".timeindex"), False, [MISSING]),
    (lambda objects: changes(objects, lambda content: content[:-1]), False, [WRONG_SIZE]),
    (lambda objects: changes(objects, lambda content: content + b"x"), False, [WRONG_SIZE]),
    (lambda objects: changes(objects, lambda content: content[:-1] + b"\xff"), False, []),
    (lambda objects: changes(objects, lambda content: content[:-1] + b"\xff"), True, [DAMAGED]),
    (lambda objects: changes(objects, lambda content: b"\xff" * len(content)), True, [DAMAGED]),
    (lambda objects: gets(objects, f"t-{STRANGE_ID}/0/{'0' * 20}-{STRANGE_ID}.log"), False, [ORPHAN]),
    (lambda objects: gets(objects, "notes/of/mine"), False, [ORPHAN]),
    (lambda objects: gets(objects, first(objects, ".log").rpartition("/")[0] + "/notes"), False, [ORPHAN]),
    (
        lambda objects: gets(objects, first(objects, ".log").rpartition("/")[0] + f"/{'0' * 20}-{STRANGE_ID}.log"),
        False,
        [ORPHAN],
    ),
]


@pytest.mark.parametrize(("spoil", "reads", "kinds"), CASES)
def test_missing_and_surplus_objects_of_the_store_are_named(
    spoil: Callable[[Objects], None], reads: bool, kinds: list[str]
) -> None:
    async def body(tiered: Tiered) -> None:
        await fill(tiered)
        spoil(tiered.store.objects)
        before = dict(tiered.store.objects)
        found = await verified(tiered, reads=reads)
        assert [each.kind for each in found.findings] == kinds
        assert found.finding_count == len(kinds)
        assert found.segment_count == 4
        assert found.object_count == len(before)
        assert tiered.store.objects == before

    play(body)


async def verified(tiered: Tiered, *, reads: bool = False) -> StoreVerification:
    store = tiered.made.world.objects.open(URI, timeout_seconds=5.0)
    verification = StoreVerification(tiered.metadata, store, reads=reads)
    await verification.run()
    return verification


def test_objects_of_deleted_segments_are_surplus() -> None:
    async def body(tiered: Tiered) -> None:
        await fill(tiered)
        name = first(tiered.store.objects, ".log")
        tiered.made.partition("t").delete_records_before(2)
        await tiered.rounds(3)
        assert name not in tiered.store.objects
        tiered.store.objects[name] = b"late"
        (found,) = (await verified(tiered)).findings
        assert (found.kind, found.name) == (LEFT_OVER, name)

    play(body)
