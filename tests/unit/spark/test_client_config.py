"""The Java client's property names as librdkafka's."""

from __future__ import annotations

import pickle

import pytest

from kraft.spark.client.client_config import admin_config, consumer_config, producer_config, translate
from kraft.spark.client.wire_security import WireSecurity
from kraft.spark.errors import DataLoss
from kraft.world.ports import Login, Tls


def test_spark_option_names_are_translated_and_client_names_pass_unchanged() -> None:
    given = {
        "fetch.max.wait.ms": "5",
        "request.timeout.ms": "9",
        "client.rack": "r",
        "max.poll.records": "1",
        "buffer.memory": "2097152",
    }
    assert translate(given) == {
        "fetch.wait.max.ms": "5",
        "socket.timeout.ms": "9",
        "client.rack": "r",
        "queue.buffering.max.kbytes": "2048",
    }


def test_readers_default_to_read_uncommitted_and_never_commit_offsets() -> None:
    config = consumer_config({"bootstrap.servers": "h:1", "enable.auto.commit": "true"}, "g")
    assert (config["isolation.level"], config["enable.auto.commit"], config["group.id"]) == (
        "read_uncommitted",
        "false",
        "g",
    )
    assert (
        consumer_config({"isolation.level": "read_committed", "group.id": "mine"}, "g")["isolation.level"]
        == "read_committed"
    )


def test_writers_are_idempotent_and_partition_keys_as_java_does() -> None:
    config = producer_config({"acks": "1", "enable.idempotence": "false"})
    assert (config["partitioner"], config["acks"], config["enable.idempotence"]) == ("murmur2_random", "1", "false")
    assert producer_config({})["enable.idempotence"] == "true"


def test_offset_lookups_get_no_consumer_settings() -> None:
    assert (
        not {"group.id", "isolation.level"}
        & admin_config({"group.id": "g", "isolation.level": "read_committed"}).keys()
    )


def test_security_options_reach_every_client_and_are_never_shown() -> None:
    security = WireSecurity(Tls(trusted="authority"), Login(mechanism="PLAIN", username="u", password="p-secret"))
    for config in (admin_config({}, security), consumer_config({}, "g", security), producer_config({}, security)):
        assert (
            config.items()
            >= {
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "u",
                "sasl.password": "p-secret",
                "ssl.ca.pem": "authority",
                "ssl.endpoint.identification.algorithm": "https",
            }.items()
        )
        assert "secret" not in repr(config)


def test_a_java_partitioner_is_refused() -> None:
    with pytest.raises(ValueError, match=r"kafka\.partitioner instead|set kafka\.partitioner"):
        translate({"partitioner.class": "x.Y"})


def test_a_kraft_error_is_pickled_as_text() -> None:
    loss = DataLoss("PARTITIONS_DELETED", "Partitions t-0 have been deleted.")
    arrived = pickle.loads(pickle.dumps(loss))
    assert str(arrived) == str(loss)
    assert "[KAFKA_DATA_LOSS.PARTITIONS_DELETED]" in str(arrived)
    assert "failOnDataLoss to false" in str(arrived)


def test_an_option_unknown_to_every_client_has_no_effect_as_in_the_java_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert translate({"no.such.thing": "1", "client.rack": "r", "linger.ms": "x"}) == {
        "client.rack": "r",
        "linger.ms": "x",
    }
    assert "kafka.no.such.thing is not known to any client and has no effect" in caplog.text


def test_an_unknown_option_neither_changes_the_reader_nor_fails_the_sink() -> None:
    from kraft.spark.sink.sink_options import check_exactly_once
    from kraft.spark.source.options import batch_options

    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.no.such.thing": "1"}
    assert batch_options(given).direct
    check_exactly_once({"no.such.thing": "1"})
    with pytest.raises(ValueError, match=r"kafka\.transactional\.id cannot be honoured"):
        check_exactly_once({"transactional.id": "1"})
