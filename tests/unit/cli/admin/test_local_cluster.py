"""How `kraft cluster start` has its nodes find their quorum."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraft.cli.admin.cluster.local_cluster import SERVED, LocalNodes, format_node, load_layout
from kraft.raft.core.voter_set import VoterSet
from kraft.raft.quorum_storage import QuorumStorage
from kraft.storage.directories.meta_properties import read_meta_properties
from kraft.world.real.files import RealFileSystem
from tests.unit.raft.builders import TextSerde


def test_a_new_cluster_has_dynamic_voters_each_with_its_directory_id(tmp_path: Path) -> None:
    layout, is_new = load_layout(tmp_path, 3, 0)
    assert is_new
    assert layout.has_dynamic_voters
    assert load_layout(tmp_path, None, None) == (layout, False)
    for node in layout.nodes:
        data = str(tmp_path / f"node-{node.node_id}" / "data")
        format_node(layout, node, data)
        format_node(layout, node, data)  # The first start may have been interrupted.
        storage = QuorumStorage(RealFileSystem(), data, TextSerde(), segment_bytes=1 << 20)
        state = storage.recover(VoterSet())
        storage.close()
        assert state.voters.ids == (1, 2, 3)
        assert state.history.kraft_version == 1
        voter = state.voters.get(node.node_id)
        identity = read_meta_properties(RealFileSystem(), data)
        assert voter is not None
        assert identity is not None
        assert voter.key.directory_id == identity.directory_id
        assert voter.endpoints[0].port == node.controller
    nodes = LocalNodes(tmp_path, layout, [], lambda text: None)
    assert nodes._quorum_options(tmp_path)[0] == "--bootstrap-controllers"


def test_a_cluster_created_with_static_voters_keeps_them(tmp_path: Path) -> None:
    load_layout(tmp_path, 2, 0)
    path = tmp_path / "cluster.json"
    old = json.loads(path.read_text())
    for node in old["nodes"]:
        del node["directory_id"]
    path.write_text(json.dumps(old))
    layout, _ = load_layout(tmp_path, None, None)
    assert not layout.has_dynamic_voters
    nodes = LocalNodes(tmp_path, layout, [], lambda text: None)
    voters = ",".join(f"{node.node_id}@127.0.0.1:{node.controller}" for node in layout.nodes)
    assert nodes._quorum_options(tmp_path) == ["--voters", voters, "--format"]
    (tmp_path / SERVED).touch()
    assert nodes._quorum_options(tmp_path) == ["--voters", voters]


def test_a_relative_cluster_directory_is_resolved_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = Path("kraft-cluster")  # As the command has it where --dir is left out.
    layout, _ = load_layout(directory, 1, 0)
    [node] = layout.nodes
    format_node(layout, node, str(directory / "node-1" / "data"))
    assert read_meta_properties(RealFileSystem(), "kraft-cluster/node-1/data") is not None
