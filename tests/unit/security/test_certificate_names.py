"""Names in certificates are spelt as Java spells them, and mapped by Kafka's rules."""

from __future__ import annotations

import datetime
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.ids import ANONYMOUS
from kraft.security.certificate_names import distinguished_name
from kraft.security.principal_mapping import PrincipalMapping
from tests.certificates import certificates

KEY = ec.generate_private_key(ec.SECP256R1())
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def certificate(*parts: x509.RelativeDistinguishedName) -> bytes:
    name = x509.Name(parts)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")]))
        .public_key(KEY.public_key())
        .serial_number(7)
        .not_valid_before(BEGIN)
        .not_valid_after(BEGIN + datetime.timedelta(days=1))
        .sign(KEY, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


def part(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName([x509.NameAttribute(oid, value) for oid, value in attributes])


WRITER = certificate(
    part((NameOID.COUNTRY_NAME, "DE")),
    part((NameOID.ORGANIZATION_NAME, "Example")),
    part((NameOID.COMMON_NAME, "Writer")),
)


def test_the_most_specific_part_comes_first() -> None:
    assert distinguished_name(WRITER) == "CN=Writer,O=Example,C=DE"


def test_special_characters_are_escaped() -> None:
    named = certificate(part((NameOID.COMMON_NAME, ' a,b=c+d"e\\f<g>h;i#j ')), part((NameOID.USER_ID, "é")))
    assert distinguished_name(named) == 'UID=é,CN=\\ a\\,b\\=c\\+d\\"e\\\\f\\<g\\>h\\;i\\#j\\ '


def test_attributes_without_a_keyword_are_hexadecimal() -> None:
    attribute = x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b", _type=_ASN1Type.IA5String)
    named = certificate(x509.RelativeDistinguishedName([attribute]), part((NameOID.COMMON_NAME, "x")))
    assert distinguished_name(named) == "CN=x,1.2.840.113549.1.9.1=#1603614062"


def test_a_part_can_have_several_attributes() -> None:
    named = certificate(part((NameOID.COMMON_NAME, "x"), (NameOID.DOMAIN_COMPONENT, "y")))
    assert sorted(distinguished_name(named).split("+")) == ["CN=x", "DC=y"]


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", "User:CN=Writer,O=Example,C=DE"),
        ("", "User:CN=Writer,O=Example,C=DE"),
        ("RULE:^CN=(.*?),.*$/$1/", "User:Writer"),
        ("RULE:^CN=(.*?),.*$/$1/L, DEFAULT", "User:writer"),
        ("RULE:^CN=(.*?),O=(.*?),.*$/$1@$2/U", "User:WRITER@EXAMPLE"),
        ("RULE:^OU=(.*?)$/$1/,\n RULE:^CN=(.*?),.*$/x\\/$1$9/", "User:x/Writer$9"),
        ("RULE:^UID=(.*?)$/$1/, DEFAULT", "User:CN=Writer,O=Example,C=DE"),
    ],
)
def test_the_first_matching_rule_gives_the_name(rules: str, principal: str) -> None:
    assert PrincipalMapping(rules).principal(WRITER) == principal


def test_a_name_without_a_matching_rule_is_rejected() -> None:
    with pytest.raises(ValueError, match="no rule of"):
        PrincipalMapping("RULE:^UID=(.*)$/$1/").principal(WRITER)


@pytest.mark.parametrize("rules", ["RULE", "RULE:a", "RULE:a/b", "RULE:a/b/X", "DEFAULTS", "RULE:(/x/"])
def test_an_invalid_mapping_rule_is_rejected(rules: str) -> None:
    with pytest.raises(ValueError, match=r"is neither|is not a regular expression"):
        PrincipalMapping(rules)


def test_a_client_without_a_certificate_is_anonymous() -> None:
    assert PrincipalMapping("DEFAULT").principal(None) == ANONYMOUS


def test_a_certificate_of_another_tool_is_read() -> None:
    der = ssl.PEM_cert_to_DER_cert(
        certificates().client_chain.split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
    )
    assert "OU=" in distinguished_name(der)


@given(
    st.binary(max_size=80)
    | st.builds(
        lambda at, byte: WRITER[:at] + bytes([byte]) + WRITER[at + 1 :], st.integers(0, 120), st.integers(0, 255)
    )
)
def test_any_bytes_are_a_name_or_a_value_error(data: bytes) -> None:
    """UnicodeDecodeError is a ValueError, too."""
    try:
        assert isinstance(distinguished_name(data), str)
    except ValueError:
        pass
