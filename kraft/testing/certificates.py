"""Keys and certificates for tests: a certificate authority, made once for a process, and the certificates that it
signs."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from kraft.testing.ports import HOST

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, KeyUsage, Name

BEGIN: Final = datetime(2000, 1, 1, tzinfo=UTC)
END: Final = datetime(2049, 1, 1, tzinfo=UTC)


class MissingPackage(ImportError):
    """Raised when the package that makes certificates is not installed."""


class Authority:
    """A certificate authority. Its certificates are for loopback servers and for clients. Raises MissingPackage."""

    def __init__(self) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError as problem:
            raise MissingPackage(
                "certificates for tests are made by the package cryptography: pip install 'kraft-node[test-kit]'"
            ) from problem
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(_name("kraft-test-authority"), self._key, None)
        self._issued: dict[str, str] = {}
        self.pem: Final = _pem(self._certificate)
        """The authority's certificate, which clients trust."""

    def issued(self, name: str) -> str:
        """Return the key and the certificate of CN=`name` as one PEM; always the same for the same name. The key is
        PKCS#8, the only form that Java reads."""
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        if name not in self._issued:
            key = ec.generate_private_key(ec.SECP256R1())
            text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
            self._issued[name] = text + _pem(self._sign(_name(name), key, self._certificate))
        return self._issued[name]

    def _sign(self, name: Name, key: EllipticCurvePrivateKey, issuer: Certificate | None) -> Certificate:
        """Make a certificate signed by `issuer`; None makes the authority's own."""
        from cryptography import x509
        from cryptography.hazmat.primitives.hashes import SHA256

        is_authority = issuer is None
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name if issuer is None else issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(BEGIN)
            .not_valid_after(END)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(_usage(is_authority), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if not is_authority:
            places = [x509.DNSName("localhost"), x509.IPAddress(ip_address(HOST))]
            builder = builder.add_extension(x509.SubjectAlternativeName(places), critical=False)
        return builder.sign(self._key, SHA256())


@cache
def authority() -> Authority:
    """The authority of all clusters of this process, so that keys are made once. Raises MissingPackage."""
    return Authority()


def _name(text: str) -> Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _usage(is_authority: bool) -> KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
