"""Ranges of addresses: what Apache Kafka 4.4.0 accepts and refuses is accepted and refused here, in its words."""

from __future__ import annotations

import re

import pytest

from kraft.security.address_ranges import is_in_range, is_range, parse_range


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.0.0.0/08", "10.0.0.0/8"),
        ("010.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.0/0", "0.0.0.0/0"),
        ("10.0.0.1/32", "10.0.0.1/32"),
        ("2001:DB8:0::1/032", "2001:db8::/32"),
        ("::/+5", "::/5"),
        ("::10.0.0.0/96", "::/96"),
        ("[::1]/128", "::1/128"),
        ("fe80::1%eth0/10", "fe80::/10"),
        ("1:2:3:4:5:6:7::/16", "1::/16"),
    ],
)
def test_bits_after_the_prefix_of_a_range_are_ignored(text: str, network: str) -> None:
    assert is_range(text)
    assert str(parse_range(text)) == network


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10.0.0.0/008", "Could not parse [10.0.0.0/008]"),
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("300.0.0.0/8", "Value [300] not in range [0,255]"),
        ("10.0.0/8", "Could not parse [10.0.0/8]"),
        ("10.0.0.0/", "Could not parse [10.0.0.0/]"),
        ("10.0.0.0/-1", "Could not parse [10.0.0.0/-1]"),
        (" 10.0.0.0/8", "Could not parse [ 10.0.0.0/8]"),
        ("10.0.0.0/8\n", "Could not parse [10.0.0.0/8\n]"),
        ("10.0.0.0/8/8", "Could not parse [10.0.0.0/8/8]"),
        ("\u0661.0.0.0/8", "Could not parse [\u0661.0.0.0/8]"),
        ("*/8", "Could not parse [*/8]"),
        ("/", "Could not parse [/]"),
        ("::/129", "Could not parse [::/129] - prefix length must be between 0 and 128"),
        ("::/-1", "Could not parse [::/-1] - prefix length must be between 0 and 128"),
        ("::/", "Could not parse [::/] - invalid prefix length"),
        ("::1/8/9", "Could not parse [::1/8/9] - invalid prefix length"),
        ("::ffff:10.0.0.0/104", "Could not parse [::ffff:10.0.0.0] - not an IPv6 address"),
        ("1::2::3/10", "Could not parse [1::2::3]"),
        ("12345::/16", "Could not parse [12345::]"),
        ("host:80/4", "Could not parse [host:80]"),
    ],
)
def test_a_malformed_range_is_refused_with_the_reason_of_kafka(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as refused:
        parse_range(text)
    assert str(refused.value) == reason
    assert not is_in_range("10.0.0.1", text)


@pytest.mark.parametrize(
    ("host", "text", "is_in"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("10.0.0.0", "10.0.0.0/8", True),
        ("10.255.255.255", "10.0.0.0/8", True),
        ("10.0.0.1", "10.0.0.0/31", True),
        ("10.0.0.2", "10.0.0.0/31", False),
        ("200.1.1.1", "0.0.0.0/0", True),
        ("2001:db8:0:0:0:0:0:5", "2001:db8::/32", True),
        ("2001:db9::5", "2001:db8::/32", False),
        ("fe80::1%eth0", "fe80::/10", True),
        ("10.0.0.1", "::/0", False),
        ("::1", "0.0.0.0/0", False),
        ("localhost", "0.0.0.0/0", False),
        ("", "0.0.0.0/0", False),
    ],
)
def test_an_address_is_in_a_range_of_its_own_family_alone(host: str, text: str, is_in: bool) -> None:
    assert is_in_range(host, text) == is_in
