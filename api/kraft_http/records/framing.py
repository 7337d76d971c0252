"""Strict parsing of where a request's head and body end. A proxy in front of a node must see the same end as the node:
otherwise what the proxy takes for a body could be another request here, which the proxy did not check (RFC 9112, 11.2).

h11 is lenient where the standard permits it: it ends lines at a bare LF, joins folded lines, prefers Transfer-Encoding
to Content-Length, and accepts a repeated Content-Length. All of these are rejected here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import h11
from h11._receivebuffer import ReceiveBuffer

END_OF_HEAD: Final = b"\r\n\r\n"
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")


class StrictBuffer(ReceiveBuffer):
    """The bytes received on a connection and not parsed yet. Heads and trailers are extracted as lines."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """The lines of a complete head or of complete trailers, or None. Raises LocalProtocolError, which h11 reports
        as the peer's error, if another reader could see another end."""
        data = self._data
        if data[:2] == b"\r\n":
            self._extract(2)
            return []
        end = data.find(END_OF_HEAD)
        if _BARE_LF.search(data, 0, len(data) if end < 0 else end):
            raise h11.LocalProtocolError("a line ends with a bare LF")
        if end < 0:
            return None
        lines = self._extract(end + len(END_OF_HEAD))[: -len(END_OF_HEAD)].split(b"\r\n")
        if doubt := framing_doubt(lines):
            raise h11.LocalProtocolError(doubt)
        return lines


def framing_doubt(lines: Iterable[bytes | bytearray]) -> str | None:
    """The reason why another reader of these lines may see another end of the body, or None."""
    lengths, codings, is_old = 0, 0, False
    for number, line in enumerate(lines):
        if number == 0:
            is_old = line.endswith(b"HTTP/1.0")
        if line[:1] in (b" ", b"\t"):
            return "a line is folded"
        name, _, value = line.partition(b":")
        match bytes(name).lower():
            case b"content-length":
                lengths += 1
                if b"," in value:
                    return "Content-Length is a list"
            case b"transfer-encoding":
                codings += 1
    if lengths > 1:
        return "Content-Length is repeated"
    if codings and (lengths or is_old):
        return "Transfer-Encoding beside Content-Length" if lengths else "Transfer-Encoding in HTTP/1.0"
    return None
