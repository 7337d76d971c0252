"""Keys and certificates for tests: an authority, a node, a client, and a stranger's."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from kraft.world.ports import Tls

CLIENT: Final = "client@example.org"


class Certificates:
    """Made once a process: keys are dear."""

    def __init__(self) -> None:
        self._authority = trustme.CA(organization_name="kraft tests")
        node = self._authority.issue_cert("localhost", "127.0.0.1")
        client = self._authority.issue_cert(CLIENT)
        self.trusted = self._authority.cert_pem.bytes().decode()
        self.node_key, self.node_chain = _pem(node)
        self.client_key, self.client_chain = _pem(client)
        self.stranger = trustme.CA(organization_name="a stranger").cert_pem.bytes().decode()

    def renewed(self) -> tuple[str, str]:
        """Another key and chain of the node."""
        return _pem(self._authority.issue_cert("localhost", "127.0.0.1"))

    def elsewhere(self) -> tuple[str, str]:
        """Key and chain of another host."""
        return _pem(self._authority.issue_cert("elsewhere.example.org"))

    def ending(self, moment: datetime) -> tuple[str, str]:
        """Key and chain of the node, which end then."""
        return _pem(self._authority.issue_cert("localhost", "127.0.0.1", not_after=moment))

    @property
    def server(self) -> Tls:
        return Tls(certificate_chain=self.node_chain, private_key=self.node_key, trusted=self.trusted)

    @property
    def anybody(self) -> Tls:
        """A client without a certificate."""
        return Tls(trusted=self.trusted)

    @property
    def client(self) -> Tls:
        return Tls(trusted=self.trusted, certificate_chain=self.client_chain, private_key=self.client_key)

    def write(self, directory: Path) -> Path:
        """ca.pem, node.pem and client.pem (key and chain each)."""
        (directory / "ca.pem").write_text(self.trusted)
        (directory / "node.pem").write_text(self.node_key + self.node_chain)
        (directory / "client.pem").write_text(self.client_key + self.client_chain)
        return directory


def _pem(issued: trustme.LeafCert) -> tuple[str, str]:
    """The key as PKCS#8, since Java reads no other."""
    chain = "".join(blob.bytes().decode() for blob in issued.cert_chain_pems)
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(), chain


@cache
def certificates() -> Certificates:
    return Certificates()
