"""`kraft storage format` and `info`: what Apache Kafka 4.4.0 refuses we refuse in its words, and what it writes we
write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kraft.common.errors import ConfigurationError
from kraft.common.ids import uuid_from_text, uuid_to_text
from kraft.raft.core.voter_set import Endpoint
from kraft.raft.formatter import (
    FormatPlan,
    FormatRequest,
    carry_out,
    find_formatted,
    parse_features,
    parse_initial_controllers,
    plan_format,
    random_uuid,
)
from kraft.raft.quorum_storage import QuorumStorage
from kraft.raft.snapshot.snapshot_path import BOOTSTRAP_ID
from kraft.raft.snapshot.snapshot_reader import SnapshotReader
from kraft.raft.storage_info import storage_info
from kraft.storage.directories.meta_properties import read_meta_properties
from kraft.world.randomness import SeededRandomness
from kraft.world.real.files import RealFileSystem
from kraft.world.simulated import Universe
from tests.unit.raft.builders import TextSerde, voters_of

FILES = RealFileSystem()
RANDOM = SeededRandomness("1")
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
DIRECTORY = "JEXY6aqzQY-32P5TStzaFg"
OTHER = "MvDxzVmcRsaTz33bUuRU6A"


ELR = "eligible.leader.replicas.version"
NEWEST = {ELR: 1, "group.version": 1, "share.version": 2, "streams.version": 1, "transaction.version": 2}


def request(tmp_path: Path, **changes: object) -> FormatRequest:
    directories = (str(tmp_path / "a"), str(tmp_path / "b"))
    standard = FormatRequest(
        cluster_id=CLUSTER,
        node_id=1,
        directories=directories,
        metadata_directory=directories[0],
        is_controller=True,
        controller_endpoints=(Endpoint("CONTROLLER", "127.0.0.1", 9093),),
        standalone=True,
    )
    return replace(standard, **changes)  # type: ignore[arg-type]


def do(asked: FormatRequest) -> FormatPlan:
    plan = plan_format(asked, find_formatted(FILES, asked.directories), RANDOM)
    carry_out(FILES, plan, TextSerde(), lambda name, level: f"{name}={level}", 1_000)
    return plan


def test_standalone_formatting_writes_the_voter_the_features_and_meta_properties(tmp_path: Path) -> None:
    plan = do(request(tmp_path))
    assert (
        plan.lines()[0]
        == f"Formatting dynamic metadata voter directory {tmp_path / 'a'} with metadata.version 4.4-IV2."
    )
    bootstrap = SnapshotReader(FILES, str(tmp_path / "a" / "bootstrap.checkpoint"), BOOTSTRAP_ID, TextSerde())
    assert [record for batch in bootstrap.batches() for record in batch.records] == [
        "metadata.version=33",
        "eligible.leader.replicas.version=1",
        "group.version=1",
        "share.version=2",
        "streams.version=1",
        "transaction.version=2",
    ]
    assert (bootstrap.voters, bootstrap.last_contained_timestamp_ms) == (None, 0)
    state = QuorumStorage(FILES, str(tmp_path / "a"), TextSerde(), segment_bytes=1 << 20).recover(voters_of(9))
    (voter,) = state.voters.voters
    identity = read_meta_properties(FILES, str(tmp_path / "a"))
    assert identity is not None
    assert (identity.cluster_id, identity.node_id, identity.directory_id) == (CLUSTER, 1, voter.key.directory_id)
    assert (voter.endpoints, voter.min_version, voter.max_version, state.history.kraft_version) == (
        (Endpoint("CONTROLLER", "127.0.0.1", 9093),),
        0,
        1,
        1,
    )
    second = read_meta_properties(FILES, str(tmp_path / "b"))
    assert second is not None
    assert second.directory_id not in (None, identity.directory_id)
    modes = {path.relative_to(tmp_path): oct(path.stat().st_mode & 0o777) for path in tmp_path.rglob("*.checkpoint")}
    assert sorted((str(path), mode) for path, mode in modes.items()) == [
        ("a/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint", "0o400"),
        ("a/bootstrap.checkpoint", "0o600"),
        ("b/bootstrap.checkpoint", "0o600"),
    ]


def test_initial_controllers_give_this_node_its_directory_id(tmp_path: Path) -> None:
    voters = parse_initial_controllers(f"1@h1:9093:{DIRECTORY},2@[::1]:9094:{OTHER}")
    plan = do(request(tmp_path, standalone=False, initial_controllers=voters))
    assert dict(plan.directory_ids)[str(tmp_path / "a")] == uuid_from_text(DIRECTORY)
    assert plan.voters is not None
    assert [(v.key.id, uuid_to_text(v.key.directory_id), v.endpoints) for v in plan.voters.voters] == [
        (1, DIRECTORY, (Endpoint("CONTROLLER", "h1", 9093),)),
        (2, OTHER, (Endpoint("CONTROLLER", "::1", 9094),)),
    ]


def test_without_initial_controllers_no_voters_are_written(tmp_path: Path) -> None:
    plan = do(request(tmp_path, standalone=False, no_initial_controllers=True))
    assert (plan.voters, plan.kraft_version) == (None, 1)
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()


def test_static_voters_and_brokers_are_formatted_without_a_quorum_flag(tmp_path: Path) -> None:
    assert do(request(tmp_path / "s", standalone=False, has_static_voters=True)).kraft_version == 0
    assert do(request(tmp_path / "b", standalone=False, is_controller=False)).voters is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster_id": " "}, "--cluster-id"),
        (
            {"has_static_voters": True},
            (
                "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
                "--standalone"
            ),
        ),
        ({"standalone": False}, "you must specify one of the following: --standalone"),
        ({"is_controller": False}, "You can only use --standalone on a controller"),
        ({"no_initial_controllers": True}, "exclude each other"),
        ({"controller_endpoints": ()}, "no controller listener"),
        ({"standalone": False, "initial_controllers": voters_of(2, 3)}, "this node, 1, is not one of the controllers"),
        (
            {"release_version": "9.9"},
            "Unknown metadata.version '9.9'. Supported metadata.version are: 3.3-IV3, 3.4-IV0, 3.5-IV0, 3.5-IV1",
        ),
        ({"features": {"foo": 1}}, "Unsupported feature: foo"),
        ({"release_version": "4.4-IV9"}, "Unknown metadata.version '4.4-IV9'"),
        ({"release_version": "4"}, "Unknown metadata.version '4'"),
        ({"features": {"metadata.version": 6}}, "No feature:metadata.version with feature level 6"),
        (
            {"release_version": "3.9", "features": {"eligible.leader.replicas.version": 1}},
            ("eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23"),
        ),
        (
            {"release_version": "3.5-IV1", "has_scram_credentials": True},
            "SCRAM is only supported in metadata.version 3.5-IV2 or later.",
        ),
        ({"features": {"kraft.version": 0}}, "Cannot set kraft.version to 0"),
        (
            {"features": {"kraft.version": 1}, "standalone": False, "has_static_voters": True},
            "Cannot set kraft.version to 1",
        ),
        ({"release_version": "4.3", "features": {"metadata.version": 30}}, "Use --release-version instead"),
        ({"features": {"fruit.version": 1}}, "Unsupported feature: fruit.version"),
        ({"features": {"share.version": 3}}, "No feature:share.version with feature level 3; supported are 0 to 2"),
    ],
)
def test_invalid_format_options_are_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("[", r"\[")):
        do(request(tmp_path, **changes))
    assert list(tmp_path.iterdir()) == []


def test_unsupported_features_can_be_omitted_by_name(tmp_path: Path) -> None:
    plan = do(request(tmp_path, features={"streams.version": 0, "group.version": 0, "metadata.version": 30}))
    assert {"streams.version", "group.version"}.isdisjoint(dict(plan.features))


@pytest.mark.parametrize(
    ("release", "name", "level", "features"),
    [
        ("3.3", "3.3-IV3", 7, {}),
        ("3.3.2", "3.3-IV3", 7, {}),
        ("3.4", "3.4-IV0", 8, {}),
        ("3.5", "3.5-IV2", 11, {}),
        ("3.6-IV0", "3.6-IV0", 12, {}),
        ("3.7", "3.7-IV4", 19, {}),
        ("3.9", "3.9-IV0", 21, {}),
        ("4.0-IV0", "4.0-IV0", 22, {"group.version": 1}),
        ("4.0-IV1", "4.0-IV1", 23, {"group.version": 1}),
        ("4.0.1-SNAPSHOT", "4.0-IV3", 25, {"group.version": 1, "transaction.version": 2}),
        ("4.1", "4.1-IV1", 27, {"group.version": 1, "transaction.version": 2, ELR: 1}),
        ("4.2", "4.2-IV1", 29, {**NEWEST, "share.version": 1}),
        ("4.3", "4.3-IV0", 30, {**NEWEST, "share.version": 1}),
        ("4.4-IV0", "4.4-IV0", 31, NEWEST),
        ("4.4", "4.4-IV2", 33, NEWEST),
        (None, "4.4-IV2", 33, NEWEST),
    ],
)
def test_the_release_decides_the_levels_of_a_new_cluster(
    tmp_path: Path, release: str | None, name: str, level: int, features: dict[str, int]
) -> None:
    plan = do(request(tmp_path, release_version=release))
    assert plan.metadata_version_name == name
    assert dict(plan.features) == {"metadata.version": level, **features}


def test_a_new_cluster_serves_share_groups_unless_they_are_omitted(tmp_path: Path) -> None:
    asked = {"metadata.version": 30, "share.version": 2}
    assert dict(do(request(tmp_path / "named", features=asked)).features) == {
        **dict(do(request(tmp_path / "default")).features),
        **asked,
    }
    assert "share.version" not in dict(do(request(tmp_path / "none", features={"share.version": 0})).features)


def test_all_formatting_problems_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        do(request(tmp_path, has_static_voters=True, features={"foo": 1}, release_version="9.9"))
    assert len(refused.value.problems) == 3


def test_a_formatted_directory_is_refused_without_ignore_formatted(tmp_path: Path) -> None:
    do(request(tmp_path, directories=(str(tmp_path / "a"),)))
    before = (tmp_path / "a" / "meta.properties").read_bytes()
    with pytest.raises(ConfigurationError, match="already formatted"):
        do(request(tmp_path))
    plan = do(request(tmp_path, ignore_formatted=True))
    assert [directory for directory, _ in plan.directory_ids] == [str(tmp_path / "b")]
    assert plan.voters is None
    assert (tmp_path / "a" / "meta.properties").read_bytes() == before
    assert do(request(tmp_path, ignore_formatted=True)).lines() == ["All of the log directories are already formatted."]


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"cluster_id": "another"}, "Invalid cluster.id in"), ({"node_id": 2}, "Invalid node.id in")],
)
def test_a_directory_of_another_node_or_cluster_is_never_changed(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    do(request(tmp_path))
    with pytest.raises(ConfigurationError, match=message):
        do(request(tmp_path, ignore_formatted=True, **changes))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1@h",
        "1@h:1",
        "x@h:1:" + DIRECTORY,
        "1@h:99999:" + DIRECTORY,
        "1@h:1:short",
        f"1@h:1:{DIRECTORY},1@i:2:{OTHER}",
    ],
)
def test_malformed_initial_controllers_are_named_in_the_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--initial-controllers"):
        parse_initial_controllers(text)


@pytest.mark.parametrize("cluster_id", ["", " ", " abc", "abc\n", "a b\nnode.id=7"])
def test_a_cluster_id_that_does_not_read_back_equal_is_refused(tmp_path: Path, cluster_id: str) -> None:
    with pytest.raises(ConfigurationError, match="--cluster-id"):
        do(request(tmp_path, cluster_id=cluster_id))


@pytest.mark.parametrize("seed", range(8))
def test_formatted_files_and_all_new_parent_directories_survive_a_power_loss(tmp_path: Path, seed: int) -> None:
    universe = Universe(seed)
    files = universe.world_for(1).files
    asked = request(tmp_path, directories=("/some/where/deep/a", "/some/b"), metadata_directory="/some/where/deep/a")
    plan = plan_format(asked, find_formatted(files, asked.directories), RANDOM)
    carry_out(files, plan, TextSerde(), lambda name, level: f"{name}={level}", 1_000)
    universe.power_off(1)
    found = find_formatted(universe.world_for(1).files, asked.directories)
    assert [directory for directory, properties in found.items() if properties is None] == []


def test_feature_arguments_are_parsed() -> None:
    assert parse_features(["kraft.version=1", "metadata.version=30"]) == {"kraft.version": 1, "metadata.version": 30}
    for wrong in (["a"], ["a=b"], ["a=--1"], ["a=\N{SUPERSCRIPT TWO}"], ["a=1", "a=2"]):
        with pytest.raises(ConfigurationError, match="--feature"):
            parse_features(wrong)


def test_storage_info_describes_each_directory(tmp_path: Path) -> None:
    asked = request(tmp_path, directories=(str(tmp_path / "a"),))
    missing = storage_info(FILES, asked.directories)
    assert (missing.exit_code, missing.lines()) == (1, ["Found problem:", f"  {tmp_path / 'a'} does not exist", ""])
    do(asked)
    found = storage_info(FILES, asked.directories)
    assert found.exit_code == 0
    assert found.lines()[:3] == ["Found log directory:", f"  {tmp_path / 'a'}", ""]
    assert f"cluster.id={CLUSTER}" in found.lines()[3]
    (tmp_path / "c").mkdir()
    assert storage_info(FILES, [*asked.directories, str(tmp_path / "c")]).problems == (
        f"{tmp_path / 'c'} is not formatted.",
    )


def test_the_random_uuid_is_a_valid_uuid() -> None:
    assert len(random_uuid(RANDOM)) == 22
    assert len(uuid_from_text(random_uuid(RANDOM))) == 16
