"""Broker keys. Authorisation and the providers of secrets."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import (
    CLASS,
    CLUSTER_WIDE,
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
        REFUSED,
        ANYTHING,
        "The class that decides who may do what. Authorisation is not there yet, and passing over it is not safe.",
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
        REFUSED,
        DISTINCT,
        "Sources of values that stand in other values as ${provider:path:key}. They cannot be loaded here.",
    ),
    key(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        MEDIUM,
        READ_ONLY,
        REFUSED,
        ANYTHING,
        "The secret that signs delegation tokens. Delegation tokens are not there.",
    ),
    key(
        "delegation.token.max.lifetime.ms",
        LONG,
        "604800000",
        MEDIUM,
        READ_ONLY,
        REFUSED,
        at_least(1),
        "How long a delegation token can be renewed at most. Delegation tokens are not there.",
    ),
    key(
        "delegation.token.expiry.time.ms",
        LONG,
        "86400000",
        MEDIUM,
        READ_ONLY,
        REFUSED,
        at_least(1),
        "How long a delegation token lasts between renewals. Delegation tokens are not there.",
    ),
    key(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        "3600000",
        LOW,
        READ_ONLY,
        REFUSED,
        at_least(1),
        "How often expired delegation tokens are removed. Delegation tokens are not there.",
    ),
)
