"""`kraft configs`, `quotas`, `features`, `transactions` and `acls` against a real node."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaException, Producer

from kraft.testing.node_process import NodeProcess
from tests.integration.outcomes import Kraft, until_equal


def test_deleting_a_missing_config_key_does_not_report_a_deletion(kraft: Kraft) -> None:
    kraft("topics", "create", "deleted-keys", "--config", "retention.ms=1000")
    deleted = kraft("configs", "delete", "topic", "deleted-keys", "retention.ms", "segment.bytes")
    assert deleted.out.splitlines() == [
        "deleted for topic deleted-keys: retention.ms",
        "not set for topic deleted-keys: segment.bytes",
    ]
    for words in ("topic deleted-keys", "cluster", "broker 1", "group g", "client-metrics m"):
        unknown = kraft("configs", "delete", *words.split(), "retentoin.ms")
        assert (unknown.code, unknown.out) == (3, ""), words
        assert "has no key retentoin.ms" in unknown.err
    assert (
        kraft("configs", "delete", "cluster", "log.retention.ms").out == "not set for the cluster: log.retention.ms\n"
    )


def test_configuration_is_set_shown_and_reset(kraft: Kraft) -> None:
    kraft("topics", "create", "configured")
    assert kraft("configs", "set", "topic", "configured", "retention.ms=7", "cleanup.policy=compact").code == 0
    shown = [row[:3] for row in kraft("configs", "describe", "topic", "configured").rows]
    assert shown == [
        ["cleanup.policy", "compact", "topic"],
        ["min.insync.replicas", "1", "cluster"],
        ["retention.ms", "7", "topic"],
    ]
    assert (
        kraft("configs", "delete", "topic", "configured", "retention.ms").out
        == "deleted for topic configured: retention.ms\n"
    )
    [only] = kraft("configs", "describe", "topic", "configured", "--key", "retention.ms", "-o", "json").document[
        "configs"
    ]
    assert (only["value"], only["source"]) == ("604800000", "default")
    assert len(kraft("configs", "describe", "topic", "configured", "--all").rows) > 20
    refused = kraft("configs", "set", "topic", "configured", "retention.ms=soon", "segment.bytes=1048576")
    assert refused.code == 1
    assert "retention.ms" in refused.err
    assert "segment.bytes" not in kraft("configs", "describe", "topic", "configured").out, "all or nothing"
    assert kraft("configs", "set", "cluster", "log.retention.hours=5").code == 1, "read-only"
    assert kraft("configs", "set", "cluster", "log.retention.ms=1000000").code == 0
    assert kraft("configs", "describe", "broker", "1", "-k", "log.retention.ms").rows[0][:3] == [
        "log.retention.ms",
        "1000000",
        "cluster",
    ]
    assert kraft("configs", "set", "group", "g", "consumer.session.timeout.ms=50000").code == 0
    assert kraft("configs", "describe", "group", "g").rows[0][:3] == ["consumer.session.timeout.ms", "50000", "group"]
    for missing in (("topic", "nowhere"), ("broker", "77")):
        assert kraft("configs", "describe", *missing).code == 3


def test_cli_quotas_are_set_listed_and_removed(kraft: Kraft) -> None:
    who = ("--user", "alice", "--client-id-default")
    assert kraft("quotas", "set", "producer_byte_rate=1048576", "request_percentage=12.5", *who).out == (
        "set for user alice, any other client id: producer_byte_rate=1048576, request_percentage=12.5\n"
    )
    assert kraft("quotas", "set", "connection_creation_rate=20", "--ip", "10.9.8.7").code == 0

    def told(*arguments: str) -> list[tuple[str, ...]]:
        lines = kraft("quotas", "list", *arguments).out.splitlines()
        return [tuple(line.split("\t")) for line in lines[1:]]

    wanted = [
        ("user alice, any other client id", "producer_byte_rate", "1048576"),
        ("user alice, any other client id", "request_percentage", "12.5"),
    ]
    until_equal(lambda: told("--user", "alice"), wanted)
    assert told("--user-default") == []
    assert {*told()} == {*wanted, ("address 10.9.8.7", "connection_creation_rate", "20")}
    assert kraft("quotas", "delete", "producer_byte_rate", "request_percentage", *who).code == 0
    until_equal(lambda: told("--user", "alice"), [])
    for arguments, why in (
        (("set", "producer_byte_rate=1"), "no entity is given"),
        (("set", "producer_byte_rate=much", "--user", "alice"), "'much' is not a number"),
        (("set", "producer_byte_rate=1", "--ip", "10.0.0.1"), "is not a quota of address 10.0.0.1"),
        (("set", "producer_byte_rate=1", "--user", "alice", "--user-default"), "give one of them"),
        (("set", "connection_creation_rate=1", "--ip", "10.0.0.1", "--user", "alice"), "quotas of their own"),
        (("delete", "no_such_key", "--user", "alice"), "'no_such_key' is not a quota of user alice"),
    ):
        outcome = kraft("quotas", *arguments)
        assert (outcome.code, " ".join(why.split()) in " ".join(outcome.err.replace("│", " ").split())) == (2, True), (
            outcome
        )
    refused = kraft("quotas", "set", "producer_byte_rate=0.5", "--user", "alice")
    assert (refused.code, "producer_byte_rate" in refused.err) == (1, True), "a broker refuses what it cannot keep to"


def test_cli_features_are_downgraded_and_upgraded(kraft: Kraft) -> None:
    def level() -> str:
        rows = [line.split("\t") for line in kraft("features", "list").out.splitlines()[1:]]
        return {name: level for name, level, *_ in rows}["transaction.version"]

    assert level() == "2"
    lowered = kraft("features", "downgrade", "transaction.version=1", "--yes")
    assert (lowered.code, lowered.out) == (0, "finalized: transaction.version=1\n")
    assert "with transaction.version below 2, a transaction's end no longer raises" in lowered.err
    until_equal(level, "1")
    assert kraft("features", "upgrade").out == "finalized: transaction.version=2\n"
    until_equal(level, "2")
    assert kraft("features", "upgrade").out == "no feature is below its level in a new cluster\n"
    for arguments, code, why in (
        (("upgrade", "transaction.version=3"), 1, "only supports versions 0-2"),
        (("upgrade", "transaction.version=1"), 1, "without setting the upgrade type to either safe or unsafe"),
        (("upgrade", "transaction.version=two"), 2, "'two' is not a level"),
        (("downgrade", "no.such=0", "--yes"), 3, "there is no feature no.such"),
        (("downgrade", "metadata.version=6", "--yes"), 1, "only supports versions 7-33"),
        (("downgrade", "metadata.version=30", "--yes"), 1, "because it might delete metadata information"),
        (("downgrade", "metadata.version=30", "--yes", "--unsafe"), 1, "Unsafe metadata downgrade is not supported"),
        (("downgrade", "transaction.version=1"), 2, "Give --yes"),
    ):
        outcome = kraft("features", *arguments)
        told = " ".join(outcome.err.replace("│", " ").split())
        assert (outcome.code, why in told) == (code, True), outcome
    assert level() == "2"


def test_the_cli_describes_and_aborts_a_transaction(kraft: Kraft, node: NodeProcess) -> None:
    kraft("topics", "create", "paid", "-p", "1")
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "payments", "log_level": 0})
    producer.init_transactions(60)
    assert kraft("transactions", "list").out.splitlines()[1].split("\t")[:2] == ["payments", "Empty"]
    producer.begin_transaction()
    producer.produce("paid", b"1")
    producer.flush(60)
    (found,) = json.loads(kraft("transactions", "describe", "payments", "-o", "json").out)["transactions"]
    assert (found["state"], found["partitions"]) == ("Ongoing", [{"topic": "paid", "partition": 0}])
    assert kraft("transactions", "list", "--state", "Ongoing", "--open-for", "3600").out.splitlines()[1:] == []
    (known,) = json.loads(kraft("transactions", "producers", "paid-0", "-o", "json").out)["producers"]
    assert (known["producer_id"], known["transaction_begins"]) == (found["producer_id"], 0)
    assert kraft("transactions", "abort", "paid-0", "--start-offset", "0").code == 2, "nobody to ask, and no --yes"
    assert kraft("transactions", "abort", "paid-0", "--start-offset", "5", "--yes").code == 3
    aborted = kraft("transactions", "abort", "paid-0", "--start-offset", "0", "--yes")
    told = "aborted in its only partition by the coordinator: the transaction of transactional id payments\n"
    assert (aborted.code, aborted.out) == (0, told)
    (found,) = json.loads(kraft("transactions", "describe", "payments", "-o", "json").out)["transactions"]
    assert (found["state"], found["partitions"]) == ("Empty", [])
    with pytest.raises(KafkaException, match=r"FENCED|INVALID_PRODUCER_EPOCH"):
        producer.commit_transaction(60)
    (known,) = json.loads(kraft("transactions", "producers", "paid-0", "-o", "json").out)["producers"]
    assert known["transaction_begins"] is None
    assert kraft("transactions", "describe", "nobody").code == 3


def test_acl_commands_without_an_authorizer_name_the_key_to_set(kraft: Kraft) -> None:
    refused = kraft("acls", "list")
    assert refused.code == 1
    assert "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer" in refused.err
