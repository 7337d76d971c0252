"""Keys that Kafka does not have; all begin with `kraft.`."""

from __future__ import annotations

from typing import Final

from kraft.common.broker_state import ACTIVE, DESIRED_STATE, DESIRED_STATES
from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import (
    BOOLEAN,
    ENFORCED,
    HIGH,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PER_BROKER,
    READ_ONLY,
    STRING,
)
from kraft.common.config.validators import ANYTHING, HOSTS, HTTP_URL, NON_EMPTY, at_least, one_of, one_of_any_case

KEYS: Final[tuple[ConfigKey, ...]] = (
    key(
        "kraft.admin.allowed.hosts",
        LIST,
        "",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        HOSTS,
        (
            "Further host names and addresses of the HTTP admin, without port: `kafka.example.org`. Its own address, "
            "localhost and the hosts of advertised.listeners are always allowed; bound to every address, it accepts "
            "any address, but no other name. A request with another Host is rejected, since a web page may send it by"
            " DNS rebinding. Changes are also accepted from pages that a proxy serves under these names at port 80 or"
            " 443."
        ),
    ),
    key(
        "kraft.admin.authentication",
        STRING,
        "none",
        HIGH,
        READ_ONLY,
        ENFORCED,
        one_of("none", "basic", "mtls"),
        (
            "How clients of the HTTP admin authenticate. basic: name and password (HTTP Basic) that a listener of "
            "this node also accepts. mtls: the client's certificate, by kraft.admin.ssl.principal.mapping.rules. "
            "none: not; all are kraft.admin.principal."
        ),
    ),
    key(
        "kraft.admin.basic.without.tls",
        BOOLEAN,
        "false",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        (
            "Allows passwords over plain HTTP beyond loopback, where the network can read them: for an HTTP admin "
            "behind a proxy that encrypts."
        ),
    ),
    key(
        "kraft.admin.listener",
        STRING,
        "127.0.0.1:9644",
        HIGH,
        READ_ONLY,
        ENFORCED,
        NON_EMPTY,
        "Where the HTTP admin listens, as host:port, or off. Port 0 picks one.",
    ),
    key(
        "kraft.admin.metrics.authorize",
        BOOLEAN,
        "false",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        (
            "Whether /metrics needs Describe on the cluster if there is an authorizer. Otherwise any logged-in user "
            "reads them, and anybody if kraft.admin.authentication is none."
        ),
    ),
    key(
        "kraft.admin.principal",
        STRING,
        "User:http-admin",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        (
            "The principal of all requests to the HTTP admin if kraft.admin.authentication is none. Unless entries or"
            " super.users name it, it may only read health and metrics."
        ),
    ),
    key(
        "kraft.admin.read.only",
        BOOLEAN,
        "false",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "Lets the HTTP admin answer questions only; every change is refused.",
    ),
    key(
        "kraft.admin.remote.without.login",
        BOOLEAN,
        "false",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        (
            "Allows an HTTP admin beyond loopback with kraft.admin.authentication=none on a node with an SSL, "
            "SASL_SSL or SASL_PLAINTEXT listener. Anybody who reaches the address may use it."
        ),
    ),
    key(
        DESIRED_STATE,
        STRING,
        ACTIVE,
        MEDIUM,
        PER_BROKER,
        ENFORCED,
        one_of(*DESIRED_STATES),
        "The wanted state of one broker; set at run time (kraft brokers maintenance, fence, decommission), not in a "
        "file. maintenance: it keeps its replicas and leads only what no other broker can. fenced: it leads nothing "
        "and serves no client. decommission: its replicas also move to others, and it is unregistered when it has "
        "none and has stopped.",
    ),
    key(
        "kraft.append.thread.min.bytes",
        LONG,
        "131072",
        LOW,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        (
            "Batches of at least this size are written to their log by a thread; smaller ones directly on the loop "
            "that serves all clients."
        ),
    ),
    key(
        "kraft.cluster.id",
        STRING,
        None,
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        NON_EMPTY,
        (
            "The cluster id of a new data directory, and the required one of an existing one. Unset, a quorum of one "
            "draws one when it is formatted."
        ),
    ),
    key(
        "kraft.format",
        BOOLEAN,
        "false",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        (
            "Formats the empty data directory of a voter of a larger quorum. For throwaway clusters only: a voter "
            "that lost its disk could vote twice."
        ),
    ),
    key(
        "kraft.group.request.max.bytes",
        LONG,
        str(4 << 20),
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        at_least(1024),
        (
            "The largest JoinGroup or SyncGroup, since members' metadata is kept in memory. A larger one gets "
            "UNKNOWN_SERVER_ERROR, as Kafka answers one that does not fit in a record of its offsets topic."
        ),
    ),
    key(
        "kraft.group.stuck.ms",
        LONG,
        "600000",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        at_least(1000),
        (
            "A member of a consumer group counts as stuck when the committed offset of one of its partitions has not "
            "moved for this long while records wait. The health verdict, the group's page, `kraft groups describe` "
            "and the metric kraft_consumergroup_stuck_members report it. Only nodes with an HTTP admin check, every "
            "10 s, or every 30 s with more than 100 groups."
        ),
    ),
    key(
        "kraft.log.format",
        STRING,
        "console",
        LOW,
        READ_ONLY,
        ENFORCED,
        one_of_any_case("CONSOLE", "JSON"),
        "How log events are written to stderr: for a person, or as one JSON object a line.",
    ),
    key(
        "kraft.log.level",
        STRING,
        "info",
        LOW,
        READ_ONLY,
        ENFORCED,
        one_of_any_case("DEBUG", "INFO", "WARNING", "ERROR"),
        "The least severe log events that are written.",
    ),
    key(
        "kraft.produce.validate.records",
        BOOLEAN,
        "true",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        (
            "Checks every record of a produced batch, as Kafka does: compressed batches are decompressed. If false, "
            "the leader checks only header, checksum, sizes and the lengths of the first 16 records, and believes the"
            " header's largest timestamp, by which records are found and deleted. That saves processor time."
        ),
    ),
    key(
        "kraft.shutdown.timeout.ms",
        LONG,
        "20000",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        at_least(0),
        "How long a stopping node may take to hand over and flush before it exits anyway.",
    ),
    key(
        "kraft.telemetry.enable",
        BOOLEAN,
        "true",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        (
            "Whether clients may push their own metrics to this broker (KIP-714). They do so once a client-metrics "
            "subscription covers them. If false, the broker does not serve those requests, and clients do not ask."
        ),
    ),
    key(
        "kraft.telemetry.otlp.endpoint",
        STRING,
        "",
        LOW,
        READ_ONLY,
        ENFORCED,
        HTTP_URL,
        (
            "URL of an OTLP/HTTP receiver, as http://collector:4318/v1/metrics. The broker forwards to it what clients "
            "push of their own metrics. Empty: to none. The authorities in ssl.truststore.location are trusted for "
            "https. A push is dropped, and never held up, when the receiver is too slow."
        ),
    ),
)
