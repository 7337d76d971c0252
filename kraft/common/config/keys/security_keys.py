"""Broker keys. Authorisation and the providers of secrets."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import (
    ACCEPTED,
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    ENFORCED,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    REFUSED,
    STRING,
)
from kraft.common.config.validators import ANYTHING, DISTINCT, at_least

KEYS: Final[tuple[ConfigKey, ...]] = (
    key(
        "authorizer.class.name",
        STRING,
        "",
        LOW,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "What decides who may do what: Kafka's StandardAuthorizer, by its class name, or nothing.",
    ),
    key(
        "super.users",
        STRING,
        "",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "Principals that the authorizer lets do everything, separated by semicolons: `User:admin;User:CN=broker-1`.",
    ),
    key(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        "false",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "Lets everybody do everything with a resource that no access control entry names.",
    ),
    key(
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        MEDIUM,
        PER_BROKER,
        REFUSED,
        ANYTHING,
        "The class that says who a client is. It cannot be loaded here.",
    ),
    key(
        "security.providers",
        STRING,
        None,
        LOW,
        READ_ONLY,
        REFUSED,
        ANYTHING,
        "Java security providers. They cannot be loaded here.",
    ),
    key(
        "config.providers",
        LIST,
        "",
        LOW,
        CLUSTER_WIDE,
        ENFORCED,
        DISTINCT,
        "Sources of values, which stand in other values as ${provider:path:key}. Read when the node starts.",
    ),
    key(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "The secret by which delegation tokens are signed, the same on every node. Without it there are no tokens.",
    ),
    key(
        "delegation.token.max.lifetime.ms",
        LONG,
        "604800000",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        "How long a delegation token can be renewed at most.",
    ),
    key(
        "delegation.token.expiry.time.ms",
        LONG,
        "86400000",
        MEDIUM,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        "How long a delegation token lasts between renewals.",
    ),
    key(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        "3600000",
        LOW,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        "How often expired delegation tokens are removed. Nobody logs in by them meanwhile.",
    ),
    key(
        "sasl.oauthbearer.allow.unverified.audience",
        BOOLEAN,
        "false",
        MEDIUM,
        READ_ONLY,
        ACCEPTED,
        ANYTHING,
        (
            "Accepts tokens although no audience is expected. Here the audience is verified where "
            "sasl.oauthbearer.expected.audience names one."
        ),
    ),
    key(
        "sasl.oauthbearer.allow.unverified.issuer",
        BOOLEAN,
        "false",
        MEDIUM,
        READ_ONLY,
        ACCEPTED,
        ANYTHING,
        (
            "Accepts tokens although no issuer is expected. Here the issuer is verified where "
            "sasl.oauthbearer.expected.issuer names one."
        ),
    ),
)
