"""Whose directories are these, and may they be formatted? Nothing is touched before that is known."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from kraft.common.config.endpoints import Endpoint
from kraft.common.config.node.format_options import FormatOptions
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ConfigurationError
from kraft.common.ids import uuid_from_text
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from kraft.server.formatting import (
    directories_of,
    format_empty_directories,
    open_metadata_directory,
    read_bootstrap_records,
    refuse_foreign_directories,
    require_metadata_directory,
)
from kraft.storage.directories.meta_properties import read_meta_properties
from kraft.world.simulated import SimulatedWorld, Universe
from kraft.world.simulated.disk import Fault
from tests.unit.server.brokers import simulate

CONTROLLERS = (Endpoint("CONTROLLER", "127.0.0.1", 9093, "PLAINTEXT"),)
CLUSTER = "4L6g3nShT-eMCtK--X86sw"
QUORUM = "controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093"


def configuration(*sets: str) -> NodeConfig:
    given = [] if any(entry.startswith("log.dirs=") for entry in sets) else ["log.dirs=/data"]
    return load_node_config(sets=[*given, *sets])


def with_world(play: Callable[[SimulatedWorld, Universe], None]) -> None:
    async def main(universe: Universe) -> None:
        play(universe.world_for("a"), universe)

    simulate(main)


def put(world: SimulatedWorld, path: str) -> None:
    world.files.make_directories(path.rpartition("/")[0] or "/")
    world.files.open(path, create=True).close()


def test_an_empty_directory_of_a_single_node_quorum_is_formatted_automatically() -> None:
    def play(world: SimulatedWorld, universe: Universe) -> None:
        config = configuration("log.dirs=/a,/b", "metadata.log.dir=/meta")
        cluster = format_empty_directories(world, config, CONTROLLERS)
        found = [read_meta_properties(world.files, path) for path in directories_of(config)]
        assert [properties is not None and properties.cluster_id for properties in found] == [cluster] * 3
        assert len({properties.directory_id for properties in found if properties is not None}) == 3
        for path in directories_of(config):
            records = read_bootstrap_records(world.files, path)
            assert [record for record in records if isinstance(record, FeatureLevelRecord)]

    with_world(play)


def test_a_member_of_a_static_quorum_is_formatted_with_the_configured_credentials_and_features() -> None:
    asked = FormatOptions(
        add_scram=("SCRAM-SHA-512=[name=alice,password=b]",), features=("group.version=0",), release_version="4.3"
    )
    config = configuration(QUORUM, "node.id=2", "kraft.format=true", f"kraft.cluster.id={CLUSTER}")

    def play(world: SimulatedWorld, universe: Universe) -> None:
        format_empty_directories(world, replace(config, format_options=asked), CONTROLLERS)
        records = read_bootstrap_records(world.files, "/data")
        [credential] = [record for record in records if isinstance(record, UserScramCredentialRecord)]
        assert (credential.name, credential.mechanism, credential.iterations) == ("alice", 2, 4096)
        levels = {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}
        assert levels["metadata.version"] == 30
        assert "group.version" not in levels

    with_world(play)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (FormatOptions(standalone=True), "You cannot specify controller.quorum.voters and format the node with"),
        (FormatOptions(add_scram=("SCRAM-SHA-1=[name=a,password=secret]",)), "SCRAM-SHA-1 is not supported"),
        (FormatOptions(features=("nonsense",)), "is not name=level"),
        (FormatOptions(release_version="3.2"), "Unknown metadata.version '3.2'"),
        (FormatOptions(initial_controllers="nonsense"), "is not id@host:port:directory-id"),
    ],
)
def test_a_directory_that_cannot_be_formatted_automatically_is_refused_and_not_changed(
    asked: FormatOptions, sentence: str
) -> None:
    config = configuration(QUORUM, "node.id=2", "kraft.format=true", f"kraft.cluster.id={CLUSTER}")

    def play(world: SimulatedWorld, universe: Universe) -> None:
        with pytest.raises(ConfigurationError, match=sentence) as refused:
            format_empty_directories(world, replace(config, format_options=asked), CONTROLLERS)
        assert "secret" not in str(refused.value)
        assert not world.files.exists("/data")

    with_world(play)


def test_the_initial_voters_of_a_dynamic_quorum_are_named_at_startup() -> None:
    mine, other = "4L6g3nShT-eMCtK--X86sg", "4L6g3nShT-eMCtK--X86sQ"
    config = configuration(
        "controller.quorum.bootstrap.servers=a:9093", "kraft.format=true", f"kraft.cluster.id={CLUSTER}"
    )

    def play(world: SimulatedWorld, universe: Universe) -> None:
        asked = FormatOptions(initial_controllers=f"1@a:9093:{mine},2@b:9093:{other}")
        format_empty_directories(world, replace(config, format_options=asked), CONTROLLERS)
        properties = read_meta_properties(world.files, "/data")
        assert properties is not None
        assert properties.directory_id == uuid_from_text(mine)
        assert world.files.exists("/data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")

    with_world(play)


def test_a_node_that_crashed_during_formatting_can_start_again() -> None:
    """The directory with the metadata is formatted first, so that no other makes its emptiness look like a loss."""

    def play(world: SimulatedWorld, universe: Universe) -> None:
        config = configuration("log.dirs=/a,/b", "metadata.log.dir=/meta")
        universe.disk("a").faults = [Fault("open", errno.EIO, "/b/")]
        with pytest.raises(OSError, match="Input/output"):
            format_empty_directories(world, config, CONTROLLERS)
        with ExitStack() as stack:
            found = open_metadata_directory(world.files, config, stack)
            assert found is not None
            require_metadata_directory(config, found.cluster_id, found)

    with_world(play)


def test_formatting_interrupted_at_any_step_can_be_repeated() -> None:
    config = configuration("log.dirs=/a,/b", "metadata.log.dir=/meta")
    died = list[bool]()

    async def body(world: SimulatedWorld) -> None:
        format_empty_directories(world, config, CONTROLLERS)

    async def main(universe: Universe, calls: int, power_lost: bool) -> None:
        world = universe.world_for("a")
        universe.kill_after_calls("a", calls, power_lost=power_lost)
        died.append(not await universe.live(world, body))
        universe.kill("a")
        again = universe.world_for("a")
        refuse_foreign_directories(again.files, config)
        if read_meta_properties(again.files, "/meta") is None:
            format_empty_directories(again, config, CONTROLLERS)
            assert [
                record
                for record in read_bootstrap_records(again.files, "/meta")
                if isinstance(record, FeatureLevelRecord)
            ]

    for calls in range(1, 120):
        for power_lost in (False, True):
            simulate(partial(main, calls=calls, power_lost=power_lost), seed=calls)
    assert died[0]
    assert not died[-1], "the whole of it was walked through"


def test_a_metadata_log_whose_directory_lost_its_meta_properties_is_refused() -> None:
    def play(world: SimulatedWorld, universe: Universe) -> None:
        config = configuration()
        format_empty_directories(world, config, CONTROLLERS)
        put(world, "/data/__cluster_metadata-0/00000000000000000000.log")
        refuse_foreign_directories(world.files, config)
        world.files.remove("/data/meta.properties")
        with pytest.raises(ConfigurationError, match=r"has no meta\.properties"):
            refuse_foreign_directories(world.files, config)
        world.files.remove("/data/__cluster_metadata-0/00000000000000000000.log")
        refuse_foreign_directories(world.files, config)

    with_world(play)


def test_a_member_of_a_quorum_is_never_formatted_accidentally() -> None:
    def play(world: SimulatedWorld, universe: Universe) -> None:
        for sets in ([QUORUM], ["controller.quorum.bootstrap.servers=a:9093"]):
            with pytest.raises(ConfigurationError) as caught:
                format_empty_directories(world, configuration(*sets), CONTROLLERS)
            assert "never formatted by accident" in str(caught.value)
        assert not world.files.exists("/data")

    with_world(play)


def test_a_directory_with_foreign_files_is_refused_and_not_changed() -> None:
    def play(world: SimulatedWorld, universe: Universe) -> None:
        put(world, "/photos/cat.jpg")
        put(world, "/meta/thesis.tex")
        put(world, "/file")
        config = configuration("log.dirs=/photos,/file,/new", "metadata.log.dir=/meta")
        with pytest.raises(ConfigurationError) as caught:
            refuse_foreign_directories(world.files, config)
        assert [problem.split(" ")[0] for problem in caught.value.problems] == [
            "metadata.log.dir:",
            "--data-dir",
            "--data-dir",
        ]
        assert world.files.list_directory("/photos") == ["cat.jpg"]
        assert not world.files.exists("/new")

    with_world(play)


def test_leftovers_of_a_file_system_and_of_a_lock_do_not_prevent_formatting() -> None:
    def play(world: SimulatedWorld, universe: Universe) -> None:
        put(world, "/data/.lock")
        world.files.make_directories("/data/lost+found")
        refuse_foreign_directories(world.files, configuration())

    with_world(play)


def test_an_unreadable_directory_is_left_to_the_log_manager() -> None:
    def play(world: SimulatedWorld, universe: Universe) -> None:
        put(world, "/b/cat.jpg")
        universe.disk("a").faults = [Fault("list", errno.EIO, "/b", times=10)]
        refuse_foreign_directories(world.files, configuration("log.dirs=/a,/b"))

    with_world(play)


def test_a_metadata_directory_of_another_node_or_in_use_is_refused() -> None:
    def play(world: SimulatedWorld, universe: Universe) -> None:
        config = configuration("metadata.log.dir=/meta")
        format_empty_directories(world, config, CONTROLLERS)
        with ExitStack() as stack, pytest.raises(ConfigurationError) as caught:
            open_metadata_directory(world.files, configuration("metadata.log.dir=/meta", "node.id=2"), stack)
        assert "belongs to node 1" in str(caught.value)
        with ExitStack() as first, ExitStack() as second:
            open_metadata_directory(world.files, config, first)
            with pytest.raises(ConfigurationError) as caught:
                open_metadata_directory(world.files, config, second)
            assert "in use" in str(caught.value)

    with_world(play)
