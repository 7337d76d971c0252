"""Compile the encoder and the decoder of one message in one version from its declaration into straight-line Python.

The schema is not used at run time. Adjacent fields of fixed width are (un)packed by one `struct` call, together with
the length that follows them. Nested structs and arrays are inlined as blocks and loops. Lengths of one byte are handled
inline. Records become views.

A decoder checks every bound, so malformed input raises ProtocolError and no other error. The element count of an array
is checked against the remaining bytes before anything is allocated. In a request, the total number of elements is
limited as well.

`decoder_source` and `encoder_source` return the text for a message, for debugging and for readers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraft.common.errors import ProtocolError
from kraft.protocol.decoder_source import DecoderSource
from kraft.protocol.encoder_source import EncoderSource
from kraft.protocol.schema import Message
from kraft.world.steps import Steps


def decoder_source(cls: type[Message], version: int) -> str:
    """Return the Python text of the decoder."""
    return DecoderSource(cls, version).text()


def encoder_source(cls: type[Message], version: int) -> str:
    """Return the Python text of the encoder."""
    return EncoderSource(cls, version).text()


def compile_decoder(cls: type[Message], version: int) -> Callable[[Any, int], tuple[Any, int]]:
    """Compile `decode(buffer, position) -> (message, end)`. Raises ProtocolError if the message has no such version."""
    _check_version(cls, version)
    source = DecoderSource(cls, version)
    names = source.names

    def decode_counting(buffer: Any, position: int) -> tuple[Any, int]:
        """Decode a buffer that may hold more elements than a request may have. The decoder is compiled on first use and
        replaces this function, because most versions never need it."""
        counting = DecoderSource(cls, version, counting=True)
        decode = names["decode_counting"] = _compiled(
            counting.text(), counting.names, f"<counting decoder of {cls.__name__} v{version}>", "decode"
        )
        return decode(buffer, position)  # type: ignore[no-any-return]  # It is a decoder.

    names["decode_counting"] = decode_counting
    return _compiled(source.text(), names, f"<decoder of {cls.__name__} v{version}>", "decode")


def compile_encoder(cls: type[Message], version: int) -> Callable[[Any, bytearray], None]:
    """Compile `encode(message, out)`. Raises ProtocolError if the message has no such version."""
    _check_version(cls, version)
    source = EncoderSource(cls, version)
    return _compiled(source.text(), source.names, f"<encoder of {cls.__name__} v{version}>", "encode")


def compile_turn_decoder(cls: type[Message], version: int) -> Callable[[Any, int], Steps[tuple[Any, int]]]:
    """Compile a decoder like `compile_decoder`, as a generator that pauses after every TURN_ELEMENTS elements."""
    _check_version(cls, version)
    source = DecoderSource(cls, version, in_turns=True)
    return _compiled(source.text(), source.names, f"<decoder in turns of {cls.__name__} v{version}>", "decode")


def compile_turn_encoder(cls: type[Message], version: int) -> Callable[[Any, bytearray], Steps[None]]:
    """Compile an encoder like `compile_encoder`, as a generator that pauses after every TURN_ELEMENTS elements."""
    _check_version(cls, version)
    source = EncoderSource(cls, version, in_turns=True)
    return _compiled(source.text(), source.names, f"<encoder in turns of {cls.__name__} v{version}>", "encode")


def _check_version(cls: type[Message], version: int) -> None:
    low, high = cls.VALID_VERSIONS
    if not low <= version <= high:
        raise ProtocolError(f"{cls.__name__} has no version {version}, only {low} to {high}")


def _compiled(text: str, names: dict[str, Any], file_name: str, function: str) -> Callable[..., Any]:
    exec(compile(text, file_name, "exec"), names)
    made: Callable[..., Any] = names[function]
    return made
