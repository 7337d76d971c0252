"""Keys as Apache Kafka's `kafka-storage format --add-scram` derives them (taken from a bootstrap snapshot that it
wrote)."""

from __future__ import annotations

import base64

from kraft.security.scram_credentials import MECHANISMS, keys_of, salted_password


def decoded(text: str) -> bytes:
    return base64.b64decode(text)


def test_scram_keys_are_derived_from_a_password() -> None:
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    salted = salted_password(mechanism, "alice-secret", decoded("MnQ2dHZibGhycWZsdXg1anc4cTN3cmM5NA=="), 4096)
    stored, server = "5oxr8rW84AfoIJMzennQtT+kcD1UKybwdcgSrMEgKC8=", "Cr3G8VO/fIfZYkHqkxOvisQaJfeG8EOR/dR7qxjjalg="
    assert keys_of(mechanism, salted) == (decoded(stored), decoded(server))


def test_scram_keys_are_derived_from_a_salted_password() -> None:
    stored = "OTJaI0xrVVArw2MNM35eGNVvo7ZObfdmB6j25TPoky/3TryBqVyDO+xwZ9ayp2b8vlAyTuh3zIGiJpXG5PlNBQ=="
    server = "SAFtavLze+JBSMhVmVxQOuH5mRkdsrE4CjtIl/LA+59pwoSC4fkJx8n+JnF+LKedPZWTai2bvkCoctFtn9zZxw=="
    assert keys_of(MECHANISMS["SCRAM-SHA-512"], decoded("mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE=")) == (
        decoded(stored),
        decoded(server),
    )
