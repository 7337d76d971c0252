"""Broker keys. TLS. Not served yet, so every key is refused unless it has its default."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import BOOLEAN, CLASS, LIST, LOW, MEDIUM, PASSWORD, PER_BROKER, READ_ONLY, REFUSED, STRING
from kraft.common.config.validators import ANYTHING, DISTINCT, one_of

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("ssl.cipher.suites", LIST, "", MEDIUM, PER_BROKER, REFUSED, DISTINCT, "Cipher suites on offer; empty leaves the choice to the library."),
    key("ssl.client.auth", STRING, "none", MEDIUM, PER_BROKER, REFUSED, one_of("required", "requested", "none"),
        "Whether clients must, may or need not show a certificate."),
    key("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", MEDIUM, PER_BROKER, REFUSED, DISTINCT, "TLS versions on offer."),
    key("ssl.protocol", STRING, "TLSv1.3", MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The TLS version that contexts are made for."),
    key("ssl.provider", STRING, None, MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The Java provider of TLS."),
    key("ssl.key.password", PASSWORD, None, MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The password of the private key."),
    key("ssl.keymanager.algorithm", STRING, "SunX509", MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The algorithm of the Java key manager."),
    key("ssl.keystore.certificate.chain", PASSWORD, None, MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The node's certificate chain in PEM form."),
    key("ssl.keystore.key", PASSWORD, None, MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The node's private key in PEM form."),
    key("ssl.keystore.location", STRING, None, MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The file with the node's key and certificates."),
    key("ssl.keystore.password", PASSWORD, None, MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The password of that file."),
    key("ssl.keystore.type", STRING, "JKS", MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The format of that file."),
    key("ssl.trustmanager.algorithm", STRING, "PKIX", MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The algorithm of the Java trust manager."),
    key("ssl.truststore.certificates", PASSWORD, None, MEDIUM, PER_BROKER, REFUSED, ANYTHING, "Trusted certificates in PEM form."),
    key("ssl.truststore.location", STRING, None, MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The file with trusted certificates."),
    key("ssl.truststore.password", PASSWORD, None, MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The password of that file."),
    key("ssl.truststore.type", STRING, "JKS", MEDIUM, PER_BROKER, REFUSED, ANYTHING, "The format of that file."),
    key("ssl.endpoint.identification.algorithm", STRING, "https", LOW, PER_BROKER, REFUSED, ANYTHING,
        "How the host name of a peer is checked against its certificate."),
    key("ssl.engine.factory.class", CLASS, None, LOW, PER_BROKER, REFUSED, ANYTHING, "A Java class that makes TLS engines."),
    key("ssl.principal.mapping.rules", STRING, "DEFAULT", LOW, READ_ONLY, REFUSED, ANYTHING,
        "Rules that turn the name in a client's certificate into a principal."),
    key("ssl.secure.random.implementation", STRING, None, LOW, PER_BROKER, REFUSED, ANYTHING, "The source of randomness for TLS."),
    key("ssl.allow.dn.changes", BOOLEAN, "false", LOW, READ_ONLY, REFUSED, ANYTHING, "Whether a reloaded certificate may have another distinguished name."),
    key("ssl.allow.san.changes", BOOLEAN, "false", LOW, READ_ONLY, REFUSED, ANYTHING, "Whether a reloaded certificate may have other alternative names."),
)
