"""The expiry of a certificate, the one field of it that a node reads (RFC 5280, section 4.1.2.5)."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Final

_PEM: Final = re.compile("-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
ENDS_SOON_SECONDS: Final = 14 * 86_400
"""A certificate that expires within this time is reported."""
HTTP_ADMIN: Final = "HTTP_ADMIN"
"""The listener name under which the HTTP admin reports logins and its certificate."""
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


def first_expiry(pem: str) -> int | None:
    """The earliest expiry of these certificates, in seconds since 1970; None if none can be read."""
    ends = [end for match in _PEM.finditer(pem) if (end := _not_after(match[1])) is not None]
    return min(ends, default=None)


def _not_after(text: str) -> int | None:
    try:
        certificate = _value(base64.b64decode(text), 0, _SEQUENCE)[0]
        signed = _value(certificate, 0, _SEQUENCE)[0]
        position = _skip(signed, 0) if signed[0] == _VERSION else 0
        for _ in range(3):  # The serial number, the algorithm of the signature, the issuer.
            position = _skip(signed, position)
        validity = _value(signed, position, _SEQUENCE)[0]
        position = _skip(validity, 0)
        kind = validity[position]
        moment = _value(validity, position, kind)[0].decode("ascii")
        if kind == _UTC_TIME:
            moment = ("19" if moment >= "50" else "20") + moment
        elif kind != _GENERALIZED_TIME:
            return None
        return int(datetime.strptime(moment, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())
    except (IndexError, ValueError, binascii.Error):
        return None


def _value(data: bytes, position: int, tag: int) -> tuple[bytes, int]:
    """The content of the DER value of that tag at `position`, and the position after it. Raises ValueError,
    IndexError."""
    if data[position] != tag:
        raise ValueError(f"tag {data[position]} instead of {tag}")
    length, position = data[position + 1], position + 2
    if length & 0x80:
        size = length & 0x7F
        length, position = int.from_bytes(data[position : position + size], "big"), position + size
    end = position + length
    if end > len(data):
        raise ValueError("shorter than it says")
    return data[position:end], end


def _skip(data: bytes, position: int) -> int:
    return _value(data, position, data[position])[1]
