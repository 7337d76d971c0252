"""Plans for moving partitions: by example, and as laws."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.admin.reassignment_plan import PlanBroker, move_off, replica_counts, spread, with_copies


def brokers(*ids: int, **racks: str) -> list[PlanBroker]:
    return [PlanBroker(each, racks.get(f"b{each}")) for each in ids]


def test_unaffected_replicas_stay_and_a_moved_replica_keeps_its_position() -> None:
    partitions = {("t", 0): (1, 2), ("t", 1): (2, 3)}
    plan = move_off(partitions, brokers(2, 3, 4), replica_counts(partitions.values()))
    assert plan.moves == {("t", 0): (4, 2)}
    assert plan.impossible == ()


def test_replicas_without_a_possible_broker_are_named() -> None:
    plan = move_off({("t", 0): (1, 2)}, brokers(2), {})
    assert plan == ({}, (("t", 0),))


def test_replicas_are_placed_on_different_racks() -> None:
    plan = move_off({("t", 0): (1, 2)}, brokers(2, 3, 4, b2="a", b3="a", b4="b"), {4: 9})
    assert plan.moves == {("t", 0): (4, 2)}


def test_a_new_broker_gets_its_share_of_replicas_and_leaders() -> None:
    partitions = {("t", index): ((1, 2) if index % 2 else (2, 1)) for index in range(9)}
    plan = spread(partitions, brokers(1, 2, 3))
    after = {**partitions, **plan.moves}
    assert sorted(replica_counts(after.values()).values()) == [6, 6, 6]
    assert sorted(replica_counts(replicas[:1] for replicas in after.values()).values()) == [3, 3, 3]
    moved = sum(len(set(target) - set(partitions[place])) for place, target in plan.moves.items())
    assert moved == 6, "no more data moves than the new broker's share"


def test_replicas_are_added_on_the_least_loaded_brokers_of_new_racks_and_removed_from_the_end() -> None:
    partitions = {("t", 0): (1,), ("t", 1): (1,), ("t", 2): (3, 1, 2, 4)}
    known = brokers(1, 2, 3, 4, b1="a", b2="a", b3="b", b4="b")
    plan = with_copies(partitions, known, 2, {1: 3, 2: 1, 3: 2, 4: 2})
    assert plan == ({("t", 0): (1, 3), ("t", 1): (1, 4), ("t", 2): (3, 1)}, ())
    assert with_copies({("t", 0): (1,)}, brokers(1, 2), 3, {}) == ({}, (("t", 0),))
    assert with_copies({("t", 0): (2, 1)}, brokers(1, 2), 2, {}) == ({}, ())


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[tuple[str, int], tuple[int, ...]], list[PlanBroker]]:
    racks = draw(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=6))
    known = [PlanBroker(index + 1, rack) for index, rack in enumerate(racks)]
    ids = [broker.id for broker in known] + [90, 91]
    factor = draw(st.integers(1, min(3, len(ids))))
    lists = draw(st.lists(st.permutations(ids).map(lambda order: tuple(order[:factor])), max_size=12))
    return {("t", index): replicas for index, replicas in enumerate(lists)}, known


@given(clusters())
def test_every_plan_is_valid(cluster: tuple[dict[tuple[str, int], tuple[int, ...]], list[PlanBroker]]) -> None:
    partitions, known = cluster
    plan = spread(partitions, known)
    racks = {broker.id: broker.rack for broker in known}
    for place, replicas in plan.moves.items():
        assert len(set(replicas)) == len(replicas) == len(partitions[place])
        assert set(replicas) <= set(racks)
    for place in plan.impossible:
        assert len(partitions[place]) > len(known)
    assert spread(partitions, known) == plan
    again = {
        place: plan.moves.get(place, replicas) for place, replicas in partitions.items() if place not in plan.impossible
    }
    if all(rack is None for rack in racks.values()) and again:
        counts = replica_counts(again.values())
        loads = [counts.get(broker, 0) for broker in racks]
        assert max(loads) - min(loads) <= 1
    assert spread(again, known).moves == {}, "a plan carried out leaves nothing to plan"
