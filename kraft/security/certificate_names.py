"""The name in a TLS client's certificate, spelt as Java spells it.

Java's `X500Principal.getName()` (RFC 2253) is what ACLs and super.users of existing clusters contain: the most
specific part first, short keywords for nine attributes, and every other attribute as an OID with hexadecimal DER.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OID: Final = 0x06
_EXPLICIT_VERSION: Final = 0xA0
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""Character sets of ASN.1 string types, by tag."""
_ESCAPED: Final = ',=+<>#;"\\'
_LENGTH_BYTES_MAX: Final = 4


def first_certificate(chain: str) -> bytes:
    """Return the first certificate of a chain in PEM, as DER. Raises ValueError."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    head, _, rest = chain.partition(begin)
    body, found, _ = rest.partition(end)
    if not found:
        raise ValueError(f"no certificate in {len(head) + len(rest)} characters of PEM")
    return base64.b64decode("".join(body.split()), validate=True)


def distinguished_name(certificate: bytes) -> str:
    """The subject of an X.509 certificate (DER). Raises ValueError."""
    (tag, body, _), *_ = _elements(certificate)
    if tag != _SEQUENCE:
        raise ValueError("a certificate is a DER sequence")
    (_, signed, _), *_ = _elements(body)
    fields = [(tag, content) for tag, content, _ in _elements(signed)]
    if fields and fields[0][0] == _EXPLICIT_VERSION:
        del fields[0]
    # Serial number, signature algorithm, issuer, validity, subject (RFC 5280, 4.1).
    if len(fields) < 5 or fields[4][0] != _SEQUENCE:
        raise ValueError("the certificate has no subject")
    return ",".join(reversed([_relative_name(tag, content) for tag, content, _ in _elements(fields[4][1])]))


def _relative_name(tag: int, content: bytes) -> str:
    if tag != _SET:
        raise ValueError("a part of the subject is no DER set")
    return "+".join(_attribute(pair) for _, pair, _ in _elements(content))


def _attribute(pair: bytes) -> str:
    parts = list(_elements(pair))
    if len(parts) != 2 or parts[0][0] != _OID:
        raise ValueError("an attribute of the subject is no pair of a type and a value")
    oid = _oid(parts[0][1])
    tag, content, whole = parts[1]
    keyword = _KEYWORDS.get(oid)
    if keyword is None or tag not in _ENCODINGS:
        return f"{keyword or oid}=#{whole.hex()}"
    return f"{keyword}={_escape(content.decode(_ENCODINGS[tag], 'replace'))}"


def _escape(text: str) -> str:
    escaped = "".join("\\" + each if each in _ESCAPED else "\\00" if each == "\0" else each for each in text)
    inner = escaped.strip(" \r")
    if not inner:
        return "".join("\\" + each for each in escaped)
    start = escaped.index(inner)
    lead, trail = escaped[:start], escaped[start + len(inner) :]
    return "".join("\\" + each for each in lead) + inner + "".join("\\" + each for each in trail)


def _oid(content: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise ValueError("an empty object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """(tag, content, whole element) of each DER element in `data`. Raises ValueError."""
    position = 0
    if not data:
        raise ValueError("an empty DER element")
    while position < len(data):
        start = position
        if position + 2 > len(data):
            raise ValueError("a DER element is cut off")
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= _LENGTH_BYTES_MAX or position + count > len(data):
                raise ValueError("a DER length that nobody uses")
            length = int.from_bytes(data[position : position + count], "big")
            position += count
        if position + length > len(data):
            raise ValueError("a DER element is cut off")
        position += length
        yield tag, data[position - length : position], data[start:position]
