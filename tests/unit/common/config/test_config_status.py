"""The status of a key is the truth: what is called enforced is read by product code, and what code reads is not
called accepted."""

from __future__ import annotations

import re
from pathlib import Path

from kraft._tools.generate_config_docs import TARGET, document
from kraft.common.config.definition import Status
from kraft.common.config.node.layers import ConfigFile
from kraft.common.config.node.node_loader import Surroundings, load_node_config
from kraft.common.config.resources import ADMIN_TLS_KEYS, BROKER_KEYS, GROUP_KEYS, TOPIC_SYNONYMS

ROOT = Path(__file__).parents[4]

READ_BY_THE_LOADER = {
    *ADMIN_TLS_KEYS,
    "kraft.admin.basic.without.tls",
    "kraft.admin.remote.without.login",
    "config.providers",
    "process.roles",
    "node.id",
    "broker.id",
    "broker.rack",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "controller.listener.names",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "cordoned.log.dirs",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "kraft.admin.listener",
    "kraft.cluster.id",
    "kraft.format",
    "log.retention.minutes",
    "log.retention.hours",
    "replica.selector.class",
}
"""Turned into attributes of NodeConfig or into a topic's values by kraft/common/config itself."""


def read_by_code() -> set[str]:
    sources = [
        path
        for package in ("kraft", "api")
        for path in sorted((ROOT / package).rglob("*.py"))
        if not path.is_relative_to(ROOT / "kraft/common/config")
        and "_tools" not in path.parts
        and "messages" not in path.parts
        and "spark" not in path.parts
        and path.name != "cluster_security.py"  # What it tells clients to set.
    ]
    return {name for path in sources for name in re.findall(r'"([a-z0-9.]+\.[a-z0-9.]+)"', path.read_text())}


def test_every_enforced_key_is_read_somewhere() -> None:
    read = (
        read_by_code()
        | READ_BY_THE_LOADER
        | {f"group.{key.name}" for key in GROUP_KEYS if key.status == Status.ENFORCED}
        | {synonym.name for synonyms in TOPIC_SYNONYMS.values() for synonym in synonyms}
    )
    assert [key.name for key in BROKER_KEYS if key.status == Status.ENFORCED and key.name not in read] == []


def test_no_accepted_key_is_read_anywhere() -> None:
    read = read_by_code()
    assert [key.name for key in BROKER_KEYS if key.status == Status.ACCEPTED and key.name in read] == []


def test_every_group_configuration_is_enforced() -> None:
    assert {key.status for key in GROUP_KEYS} == {Status.ENFORCED}
    assert {key.name for key in GROUP_KEYS} <= read_by_code()


def test_the_documentation_is_generated_from_the_table() -> None:
    assert TARGET.read_text(encoding="utf-8") == document(), "run python -m kraft._tools.generate_config_docs"


QUORUMS_OF_ONE = ("development", "reachable", "standalone")


def test_every_sample_is_a_usable_configuration() -> None:
    samples = sorted((ROOT / "config").glob("*.properties"))
    assert len(samples) >= 6
    for sample in samples:
        config = load_node_config(
            files=[ConfigFile(sample.name, sample.read_text())], surroundings=Surroundings(working_directory="/tmp")
        )
        assert config.warnings == (), sample
        assert config.quorum_of_one == (sample.stem in QUORUMS_OF_ONE), sample
