import pytest

from kraft.common.errors import ProtocolError
from kraft.protocol.messages.delete_records_request import DeleteRecordsRequest
from kraft.protocol.primitives import read_unknown_tags, read_uvarint, skip_tagged_fields, write_tags, write_uvarint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (1, b"\x01"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (16384, b"\x80\x80\x01"),
        (2**31 - 1, b"\xff\xff\xff\xff\x07"),
    ],
)
def test_an_unsigned_varint_is_little_endian_in_groups_of_seven_bits(value: int, encoded: bytes) -> None:
    out = bytearray()
    write_uvarint(out, value)
    assert out == encoded
    assert read_uvarint(b"#" + encoded + b"#", 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize(
    "encoded", [b"", b"\x80", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x08", b"\x80\x80\x80\x80\x80\x01", b"\xff" * 20]
)
def test_a_truncated_or_too_large_varint_is_rejected(encoded: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_uvarint(encoded, 0)


@pytest.mark.parametrize("value", [-1, 2**31])
def test_a_number_outside_unsigned_varints_is_not_written(value: int) -> None:
    with pytest.raises(ProtocolError):
        write_uvarint(bytearray(), value)


def test_a_tag_section_is_written_in_ascending_order_with_known_and_unknown_tags_mixed() -> None:
    out = bytearray()
    write_tags(out, {3: bytearray(b"c"), 0: bytearray(b"")}, {200: b"zz", 1: b"a"})
    assert out == b"\x04" + b"\x00\x00" + b"\x01\x01a" + b"\x03\x01c" + b"\xc8\x01\x02zz"
    assert read_unknown_tags(out, 1, out[0]) == ({0: b"", 1: b"a", 3: b"c", 200: b"zz"}, len(out))
    assert skip_tagged_fields(b"#" + out + b"#", 1) == 1 + len(out)


def test_an_unknown_tag_known_to_this_version_is_not_written_twice() -> None:
    with pytest.raises(ProtocolError, match="repeat"):
        write_tags(bytearray(), {1: bytearray(b"a")}, {1: b"b"})


@pytest.mark.parametrize(
    "section", [b"", b"\x01", b"\x01\x05", b"\x01\x05\x02x", b"\x02\x05\x01x", b"\xff\xff\xff\xff\x07"]
)
def test_a_truncated_tag_section_is_rejected(section: bytes) -> None:
    with pytest.raises(ProtocolError):
        skip_tagged_fields(section, 0)
    if section:
        with pytest.raises(ProtocolError):
            read_unknown_tags(section, 1, section[0])


def test_the_count_of_many_tags_is_a_multi_byte_varint() -> None:
    tags = dict.fromkeys(range(130), b"")
    out = bytearray()
    write_tags(out, {}, tags)
    count, position = read_uvarint(out, 0)
    assert read_unknown_tags(out, position, count) == (tags, len(out))
    assert skip_tagged_fields(out, 0) == len(out)
    request = DeleteRecordsRequest(unknown_tags=tags)
    assert DeleteRecordsRequest.decode(request.encode(2), 2) == request
