"""The laws of the simple assignor."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator.group.consumer.member import Partitions
from kraft.coordinator.group.share.simple_assignor import assign

TOPICS = (b"a", b"b", b"c")
Subscriptions = dict[str, frozenset[bytes]]


@st.composite
def groups(draw: st.DrawFn) -> tuple[Subscriptions, dict[bytes, frozenset[int]], dict[str, Partitions]]:
    names = [f"m{number}" for number in range(draw(st.integers(1, 8)))]
    everything = draw(st.booleans())
    topics = st.just(frozenset(TOPICS)) if everything else st.frozensets(st.sampled_from(TOPICS), min_size=1)
    subscriptions = {name: draw(topics) for name in names}
    partitions = {topic: frozenset(range(draw(st.integers(0, 5)))) for topic in TOPICS}
    places = st.dictionaries(st.sampled_from(TOPICS), st.frozensets(st.integers(0, 6)))
    current = {name: draw(places) for name in draw(st.lists(st.sampled_from([*names, "gone"]), unique=True))}
    return subscriptions, partitions, current


def counts(targets: dict[str, Partitions]) -> Counter[tuple[bytes, int]]:
    return Counter(
        (topic, partition) for target in targets.values() for topic, parts in target.items() for partition in parts
    )


@given(groups())
def test_every_partition_gets_a_member_and_every_member_a_partition(
    group: tuple[Subscriptions, dict[bytes, frozenset[int]], dict[str, Partitions]],
) -> None:
    subscriptions, partitions, current = group
    targets = assign(subscriptions, partitions, lambda name: current.get(name, {}))
    assert targets.keys() == subscriptions.keys()
    wanted = frozenset().union(*subscriptions.values())
    assert counts(targets).keys() == {(topic, index) for topic in wanted for index in partitions[topic]}
    for name, topics in subscriptions.items():
        assert targets[name].keys() <= topics
        assert bool(targets[name]) == any(partitions[topic] for topic in topics)


@given(groups())
def test_members_with_equal_subscriptions_get_equal_shares_and_keep_their_partitions(
    group: tuple[Subscriptions, dict[bytes, frozenset[int]], dict[str, Partitions]],
) -> None:
    subscriptions, partitions, current = group
    subscriptions = dict.fromkeys(subscriptions, frozenset(TOPICS))
    targets = assign(subscriptions, partitions, lambda name: current.get(name, {}))
    sizes = [sum(map(len, target.values())) for target in targets.values()]
    assert max(sizes) - min(sizes) <= 1
    shares = counts(targets).values()
    assert not shares or max(shares) - min(shares) <= 1
    assert assign(subscriptions, partitions, lambda name: targets.get(name, {})) == targets, "what is balanced stays"
    smaller = dict(list(subscriptions.items())[:-1])
    if smaller and len(counts(targets)) >= len(subscriptions):
        after = assign(smaller, partitions, lambda name: targets.get(name, {}))
        kept = all(
            parts <= after[name].get(topic, frozenset()) for name in smaller for topic, parts in targets[name].items()
        )
        assert kept, "a member that leaves moves its own partitions alone"
