"""Laws of the metadata image: what a snapshot holds is the image, batches may be cut anywhere, and nothing depends
on hash order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage
from tests.properties.metadata_histories import draw_history, encoded, snapshot_digest

SOAK = os.environ.get("KRAFT_SOAK") == "1"
seeds = st.integers(min_value=0, max_value=2**32)
lengths = st.integers(min_value=0, max_value=60)
few = settings(max_examples=2000 if SOAK else 120)


def image_of(records: list[object]) -> MetadataImage:
    return MetadataImage().replay_batch(records)[0]


@few
@given(seed=seeds, steps=lengths)
def test_an_image_survives_writing_and_reading(seed: int, steps: int) -> None:
    image = image_of(draw_history(random.Random(seed), steps))
    assert image_of(list(image.write())) == image


@few
@given(seed=seeds, steps=lengths, cut=st.floats(0, 1))
def test_replaying_a_prefix_and_then_the_rest_gives_the_whole_image(seed: int, steps: int, cut: float) -> None:
    records = draw_history(random.Random(seed), steps)
    at = int(len(records) * cut)
    whole, whole_changes = MetadataImage().replay_batch(records)
    prefix, prefix_changes = MetadataImage().replay_batch(records[:at])
    rest, rest_changes = prefix.replay_batch(records[at:])
    assert rest == whole
    through_snapshot = image_of(list(prefix.write())).replay_batch(records[at:])[0]
    assert through_snapshot == whole
    prefix_changes.merge(rest_changes)
    assert keys_of(prefix_changes) == keys_of(whole_changes)


@few
@given(seed=seeds, steps=lengths)
def test_replaying_records_one_by_one_equals_replaying_them_together(seed: int, steps: int) -> None:
    records = draw_history(random.Random(seed), steps)
    image = MetadataImage()
    for record in records:
        image, _ = image.replay_batch([record])
    assert image == image_of(records)


@few
@given(seed=seeds, steps=lengths, cut=st.floats(0, 1))
def test_image_changes_name_every_difference_with_its_former_value(seed: int, steps: int, cut: float) -> None:
    records = draw_history(random.Random(seed), steps)
    at = int(len(records) * cut)
    before = image_of(records[:at])
    after, changes = before.replay_batch(records[at:])
    true_changes = MetadataChanges.between(before, after)
    for name in (
        "brokers",
        "controllers",
        "features",
        "configs",
        "client_quotas",
        "acls",
        "scram",
        "delegation_tokens",
    ):
        told, true = getattr(changes, name), getattr(true_changes, name)
        assert true.items() <= told.items(), name
    assert changes.topics.created == true_changes.topics.created
    assert changes.topics.deleted == true_changes.topics.deleted
    for topic_id, partitions in true_changes.topics.partitions.items():
        assert partitions.items() <= changes.topics.partitions[topic_id].items()


@few
@given(seed=seeds, steps=lengths)
def test_the_image_indexes_agree_with_its_partitions(seed: int, steps: int) -> None:
    topics = image_of(draw_history(random.Random(seed), steps)).topics
    everything = [
        ((topic.id, index), partition)
        for topic in topics.by_id.values()
        for index, partition in topic.partitions.items()
    ]
    assert topics.leaderless.keys() == tuple(key for key, partition in everything if partition.leader == -1)
    assert topics.imbalanced.keys() == tuple(key for key, partition in everything if not partition.has_preferred_leader)
    assert topics.reassigning.keys() == tuple(key for key, partition in everything if partition.is_reassigning)
    for broker_id in range(1, 6):
        assert tuple(topics.partitions_on(broker_id)) == tuple(
            key for key, partition in everything if broker_id in partition.replicas
        )
    names = [topic.name for topic in topics.by_id.values()]
    forms = {name.replace(".", "_") for name in names if "." in name or "_" in name}
    assert dict(topics.colliding.items()) == {
        form: tuple(sorted(name for name in names if name.replace(".", "_") == form)) for form in forms
    }
    assert {topic.name: topic.id for topic in topics.by_id.values()} == dict(topics.id_by_name.items())


@few
@given(seed=seeds, steps=lengths, cut=st.floats(0, 1), size=st.integers(1, 50))
def test_the_partitions_of_each_broker_are_carried_over_between_images(
    seed: int, steps: int, cut: float, size: int
) -> None:
    records = draw_history(random.Random(seed), steps)
    at = int(len(records) * cut)
    image = image_of(records[:at])
    for _ in image.topics.index_brokers():
        pass
    for start in range(at, len(records), size):
        image, _ = image.replay_batch(records[start : start + size])
        assert image.topics.has_brokers_indexed
        anew = image_of(list(image.write())).topics
        for broker_id in range(1, 6):
            assert [*image.topics.partitions_on(broker_id)] == [*anew.partitions_on(broker_id)]


@few
@given(seed=seeds, steps=lengths)
def test_equal_images_are_written_as_equal_bytes_whatever_their_history(seed: int, steps: int) -> None:
    image = image_of(draw_history(random.Random(seed), steps))
    written = list(image.write())
    again = MetadataImage()
    for record in written:
        again, _ = again.replay_batch([record])
    assert encoded(list(again.write())) == encoded(written)


def test_a_snapshot_has_the_same_bytes_under_every_hash_seed() -> None:
    program = (
        "from tests.properties.metadata_histories import snapshot_digest; print(*(snapshot_digest(seed) for seed "
        "in range(5)))"
    )
    root = str(Path(__file__).resolve().parents[2])
    digests = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for hash_seed in ("1", "4242")
    ]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 5
    assert digests[0][0] == snapshot_digest(0)


def keys_of(changes: MetadataChanges) -> list[object]:
    tables = ("brokers", "controllers", "features", "configs", "client_quotas", "acls", "scram", "delegation_tokens")
    topics = changes.topics
    return [
        *(getattr(changes, name) for name in tables),
        topics.created,
        topics.deleted,
        {topic_id: partitions for topic_id, partitions in topics.partitions.items() if partitions},
        changes.producer_ids,
    ]
