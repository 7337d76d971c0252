"""When certificates end, beside what the package cryptography reads."""

from __future__ import annotations

import datetime

import pytest
import trustme
from cryptography import x509

from kraft.security.certificates import first_expiry


@pytest.mark.parametrize("year", [2027, 2049, 2050, 2099])
def test_the_expiry_equals_that_read_by_cryptography(year: int) -> None:
    authority = trustme.CA()
    moment = datetime.datetime(year, 3, 1, 12, 30, 59, tzinfo=datetime.UTC)
    sooner = authority.issue_cert("host", not_after=moment)
    pem = sooner.cert_chain_pems[0].bytes()
    found = first_expiry(pem.decode())
    assert found == x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp() == moment.timestamp()


def test_of_several_certificates_the_first_to_expire_counts() -> None:
    authority = trustme.CA()
    moments = [datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) for year in (2031, 2029, 2030)]
    chain = "\n".join(
        authority.issue_cert("host", not_after=moment).cert_chain_pems[0].bytes().decode() for moment in moments
    )
    assert first_expiry(chain) == moments[1].timestamp()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n\n-----END CERTIFICATE-----",
    ],
)
def test_text_without_a_certificate_has_no_expiry(text: str) -> None:
    assert first_expiry(text) is None


def test_damaged_certificates_are_skipped() -> None:
    pem = trustme.CA().issue_cert("host").cert_chain_pems[0].bytes().decode()
    head, *lines, foot = pem.strip().split("\n")
    for cut in range(len(lines)):
        first_expiry("\n".join([head, *lines[:cut], foot]))
