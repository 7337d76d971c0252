"""Laws of the codec, for every message: encoding and decoding are inverse in every version, and malformed bytes
raise ProtocolError and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kraft.common.errors import ProtocolError
from kraft.protocol.schema import Message, fields_of
from tests.properties.protocol_strategies import (
    examples,
    message_classes,
    messages,
    shares,
    versioned_messages,
    versions,
)


def changing(cls: type[Message]) -> bool:
    return any(not field.present(version) for field in fields_of(cls) for version in versions(cls))


every_message = shares(message_classes())
every_changing_message = shares([cls for cls in message_classes() if changing(cls)])


@every_message
@given(data=st.data())
@examples(200)
def test_a_decoded_message_equals_the_encoded_one(classes: list[type[Message]], data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(classes))
    version, message = data.draw(versioned_messages(cls))
    encoded = message.encode(version)
    assert cls.decode(encoded, version) == message
    for buffer in (bytearray(encoded), memoryview(b"--" + encoded + b"-")[2:-1]):
        decoded = cls.decode(buffer, version)
        assert decoded == message
        assert decoded.encode(version) == encoded
    padded, end = cls.decode_from(b"##" + encoded + b"##", 2, version)
    assert padded == message
    assert end == 2 + len(encoded)


@every_message
@given(data=st.data())
@examples(200)
def test_every_strict_prefix_of_a_message_is_refused(classes: list[type[Message]], data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(classes))
    version, message = data.draw(versioned_messages(cls))
    encoded = message.encode(version)
    cuts = (
        range(len(encoded))
        if len(encoded) < 200
        else data.draw(st.lists(st.integers(0, len(encoded) - 1), min_size=20, max_size=50))
    )
    for cut in cuts:
        with pytest.raises(ProtocolError):
            cls.decode(encoded[:cut], version)
        with pytest.raises(ProtocolError):
            cls.decode_from(encoded[:cut], 0, version)
    with pytest.raises(ProtocolError):
        cls.decode(encoded + b"\0", version)


def decodes_or_refuses(cls: type[Message], version: int, mutated: bytes) -> None:
    """Whatever is accepted can be written again, and read again as the same."""
    try:
        decoded = cls.decode(mutated, version)
    except ProtocolError:
        return
    again = cls.decode(decoded.encode(version), version)
    assert again.encode(version) == decoded.encode(version)


@every_message
@given(data=st.data())
@examples(200)
def test_changed_bytes_decode_or_are_refused(classes: list[type[Message]], data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(classes))
    version, message = data.draw(versioned_messages(cls))
    encoded = bytearray(message.encode(version))
    byte = st.one_of(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]), st.integers(0, 255))
    for position, value in data.draw(
        st.lists(st.tuples(st.integers(0, max(len(encoded) - 1, 0)), byte), min_size=1, max_size=10)
    ):
        if encoded:
            encoded[min(position, 60 if position % 2 else len(encoded) - 1, len(encoded) - 1)] = value
        decodes_or_refuses(cls, version, bytes(encoded))


@every_message
@given(data=st.data())
@examples(200)
def test_random_bytes_decode_or_are_refused(classes: list[type[Message]], data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(classes))
    version = data.draw(st.sampled_from(versions(cls)))
    for content in data.draw(st.lists(st.binary(max_size=80), min_size=3, max_size=12)):
        decodes_or_refuses(cls, version, content)


@every_changing_message
@given(data=st.data())
@examples(200)
def test_a_version_drops_fields_it_lacks_if_they_are_ignorable_and_refuses_the_message_otherwise(
    classes: list[type[Message]], data: st.DataObject
) -> None:
    cls = data.draw(st.sampled_from(classes))
    version = data.draw(st.sampled_from(versions(cls)))
    absent = [field for field in fields_of(cls) if not field.present(version)]
    assume(absent)
    field = data.draw(st.sampled_from(absent))
    elsewhere = [other for other in versions(cls) if field.present(other)]
    assume(elsewhere)
    other = data.draw(messages(cls, data.draw(st.sampled_from(elsewhere)), tags=False))
    value = getattr(other, field.name)
    message = cls()
    is_default = value is None if field.default is None else value == getattr(message, field.name)
    setattr(message, field.name, value)
    if is_default or field.ignorable or (value is None and field.tag >= 0 and field.is_struct):
        assert message.encode(version) == cls().encode(version)
    else:
        out = bytearray(b"before")
        with pytest.raises(ProtocolError, match=field.name):
            message.encode_into(out, version)
        assert out == b"before"
