"""Broker keys. Who a node is and where it listens."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import REQUIRED, ConfigKey, key
from kraft.common.config.keys.words import (
    ACCEPTED,
    BOOLEAN,
    ENFORCED,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PER_BROKER,
    READ_ONLY,
    REFUSED,
    STRING,
)
from kraft.common.config.validators import ANYTHING, DISTINCT, DISTINCT_NON_EMPTY, at_least, list_of, one_of

KEYS: Final[tuple[ConfigKey, ...]] = (
    key(
        "process.roles",
        LIST,
        REQUIRED,
        HIGH,
        READ_ONLY,
        ENFORCED,
        list_of("broker", "controller", may_be_empty=False),
        "What this process is: a broker that serves clients, a controller that keeps the metadata quorum, or both.",
    ),
    key(
        "node.id",
        INT,
        REQUIRED,
        HIGH,
        READ_ONLY,
        ENFORCED,
        at_least(0),
        "The node's number. Brokers and controllers share one number space, and it never changes for a data directory.",
    ),
    key(
        "broker.id",
        INT,
        "-1",
        HIGH,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "The older name of node.id. When both are given they must agree.",
    ),
    key(
        "broker.rack",
        STRING,
        None,
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        (
            "The rack or availability zone of this broker. New partitions spread their replicas over racks, and "
            "consumers may prefer a replica of their own rack."
        ),
    ),
    key(
        "listeners",
        LIST,
        "PLAINTEXT://:9092",
        HIGH,
        PER_BROKER,
        ENFORCED,
        DISTINCT_NON_EMPTY,
        (
            "Addresses to listen on, as NAME://host:port. Port 0 lets the system choose; an empty host means "
            "every interface."
        ),
    ),
    key(
        "advertised.listeners",
        LIST,
        None,
        HIGH,
        READ_ONLY,
        ENFORCED,
        DISTINCT_NON_EMPTY,
        (
            "Addresses that clients are told to use. Unset, they follow the addresses in listeners, with the "
            "ports that were really bound."
        ),
    ),
    key(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        LOW,
        PER_BROKER,
        ENFORCED,
        ANYTHING,
        "The security protocol of each listener name, as NAME:PROTOCOL. PLAINTEXT and SSL are served.",
    ),
    key(
        "controller.listener.names",
        LIST,
        REQUIRED,
        HIGH,
        READ_ONLY,
        ENFORCED,
        DISTINCT_NON_EMPTY,
        "Which listener names belong to controllers. Brokers find the port of the quorum by the first of them.",
    ),
    key(
        "inter.broker.listener.name",
        STRING,
        None,
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "The listener over which brokers talk to one another. Unset, it is chosen by security.inter.broker.protocol.",
    ),
    key(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "The security protocol between brokers when no inter.broker.listener.name is given.",
    ),
    key(
        "early.start.listeners",
        LIST,
        None,
        HIGH,
        READ_ONLY,
        ACCEPTED,
        DISTINCT,
        (
            "Listeners that accept connections before the authorizer has loaded. Without an authorizer every "
            "listener may start as soon as the node is ready."
        ),
    ),
    key(
        "initial.broker.registration.timeout.ms",
        INT,
        "60000",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "How long a starting broker keeps trying to register with the quorum before it gives up and exits.",
    ),
    key(
        "broker.heartbeat.interval.ms",
        INT,
        "2000",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "How often a broker tells the active controller that it lives.",
    ),
    key(
        "broker.session.timeout.ms",
        INT,
        "9000",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        (
            "After so long without a heartbeat the controller fences a broker and moves its leaderships. A proven "
            "death is acted on earlier."
        ),
    ),
    key(
        "controlled.shutdown.enable",
        BOOLEAN,
        "true",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "Whether a stopping broker first hands its leaderships to other brokers.",
    ),
    key(
        "server.max.startup.time.ms",
        LONG,
        "9223372036854775807",
        MEDIUM,
        READ_ONLY,
        ACCEPTED,
        at_least(0),
        "How long a start may take before the node counts as failed.",
        internal=True,
    ),
    key(
        "unstable.api.versions.enable",
        BOOLEAN,
        "false",
        HIGH,
        READ_ONLY,
        REFUSED,
        ANYTHING,
        "Offers request versions that Kafka has not released yet. None of them is served.",
        internal=True,
    ),
    key(
        "unstable.feature.versions.enable",
        BOOLEAN,
        "false",
        HIGH,
        READ_ONLY,
        REFUSED,
        ANYTHING,
        "Allows feature levels that Kafka has not released yet. None of them is served.",
        internal=True,
    ),
)
