"""The table of keys against what Apache Kafka 4.4.0's own ConfigDef does with the same texts (tests/vectors/config,
recorded by ConfigTexts.java, without the internal keys that are new in 4.4)."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from kraft.common.config.definition import ConfigDef, Status
from kraft.common.config.resources import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS, TOPIC_SYNONYMS
from kraft.common.config.types import ConfigType, java_double_text, text_of

VECTORS = Path(__file__).parents[3] / "vectors" / "config" / "config_texts.json.gz"
TABLES: dict[str, ConfigDef] = {"broker": BROKER_KEYS, "topic": TOPIC_KEYS, "group": GROUP_KEYS}


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_every_value_is_accepted_or_rejected_in_kafkas_words(kind: str) -> None:
    recorded = json.loads(gzip.decompress(VECTORS.read_bytes()))[kind]
    differences = []
    for name, texts in recorded.items():
        key = TABLES[kind][name]
        for text, (accepted, expected) in texts.items():
            try:
                outcome = [True, text_of(key.type, key.parse(text))]
            except ValueError as problem:
                outcome = [False, str(problem)]
            if outcome != [accepted, expected]:
                differences.append((name, text, expected, outcome))
    assert sum(map(len, recorded.values())) > 400
    assert differences == []


def test_the_tables_contain_exactly_kafkas_keys_and_ours() -> None:
    recorded = json.loads(gzip.decompress(VECTORS.read_bytes()))
    dynamic_only = {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
    classes = {key.name for key in BROKER_KEYS if key.type == ConfigType.CLASS}
    # Kafka leaves those of rlmm.config. to the class that remembers what lies remotely.
    ours = {key.name for key in BROKER_KEYS if key.name.startswith(("kraft.", "rlmm.config."))}
    authorizers = {"super.users", "allow.everyone.if.no.acl.found"}  # Kafka's own table does not know them.
    assert set(BROKER_KEYS.names()) == set(recorded["broker"]) | dynamic_only | classes | ours | authorizers
    assert set(TOPIC_KEYS.names()) == set(recorded["topic"]) | {"kraft.unclean.recovery.strategy"}
    assert set(GROUP_KEYS.names()) == set(recorded["group"])
    assert set(CLIENT_METRICS_KEYS.names()) == {"metrics", "interval.ms", "match"}


@pytest.mark.parametrize("table", [BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS, CLIENT_METRICS_KEYS])
def test_every_key_has_a_describing_sentence_and_a_valid_default(table: ConfigDef) -> None:
    for key in table:
        assert re.fullmatch(r"[A-Z].*\.", key.documentation), key
        assert key.status in (Status.ENFORCED, Status.ACCEPTED, Status.REFUSED, Status.PLUGIN)
        if key.default_canonical_text is not None:
            assert key.validate(key.default_canonical_text) is None, key
            assert key.is_default(key.default_canonical_text)


def test_every_synonym_is_a_broker_key_of_the_same_type() -> None:
    for topic_key, synonyms in TOPIC_SYNONYMS.items():
        for synonym in synonyms:
            if synonym.factor == 1:
                assert BROKER_KEYS[synonym.name].type == TOPIC_KEYS[topic_key].type
    assert [key.name for key in TOPIC_KEYS if key.name not in TOPIC_SYNONYMS] == [
        "errors.deadletterqueue.group.enable",
        "follower.replication.throttled.replicas",
        "internal.segment.bytes",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    ]


DOUBLES = [
    (0.5, "0.5"),
    (1000.0, "1000.0"),
    (1e7, "1.0E7"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
    (1e-3, "0.001"),
    (1e-4, "1.0E-4"),
    (-2.5e-10, "-2.5E-10"),
    (float("inf"), "Infinity"),
    (123456789.0, "1.23456789E8"),
]


@pytest.mark.parametrize(("value", "text"), DOUBLES)
def test_doubles_are_printed_as_by_java(value: float, text: str) -> None:
    assert java_double_text(value) == text


def test_an_unknown_name_is_an_error() -> None:
    assert TOPIC_KEYS.validate("retention.m", "1") == "Unknown config name: retention.m"
    assert TOPIC_KEYS.get("retention.m") is None
