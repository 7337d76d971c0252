"""Which limit holds for whom: the eight levels, against a plain search."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.metadata.image.client_quotas_image import ClientQuotasImage
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.quota_keys import CONNECTION_CREATION_RATE, PRODUCER_BYTE_RATE
from kraft.quota.quota_limits import AddressLimits, QuotaLimits, Share

LEVELS = (
    (("user", "u"), ("client-id", "c")),
    (("user", "u"), ("client-id", None)),
    (("user", "u"),),
    (("user", None), ("client-id", "c")),
    (("user", None), ("client-id", None)),
    (("user", None),),
    (("client-id", "c"),),
    (("client-id", None),),
)
"""From the one that wins to the last, for user u and client id c."""
SHARES = (
    Share("u", "c"),
    Share("u", "c"),
    Share("u", ""),
    Share("u", "c"),
    Share("u", "c"),
    Share("u", ""),
    Share("", "c"),
    Share("", "c"),
)


def image(*quotas: tuple[tuple[tuple[str, str | None], ...], str, float]) -> ClientQuotasImage:
    entities: dict[tuple[tuple[str, bool, str], ...], OrderedMap[str, float]] = {}
    for parts, key, value in quotas:
        entity = tuple(sorted((kind, name is not None, name or "") for kind, name in parts))
        entities[entity] = OrderedMap({**dict(entities.get(entity, OrderedMap()).items()), key: value})
    return ClientQuotasImage(OrderedMap(entities))


@given(st.sets(st.integers(0, 7)))
def test_the_most_specific_level_wins(present: set[int]) -> None:
    made = image(*[(LEVELS[level], PRODUCER_BYTE_RATE, float(level + 1)) for level in sorted(present)])
    limits = QuotaLimits(made, PRODUCER_BYTE_RATE)
    assert bool(limits) == bool(present)
    found = limits.find("u", "c")
    if not present:
        assert found is None
        return
    best = min(present)
    assert found == (SHARES[best], float(best + 1))
    strangers = limits.find("x", "y")
    defaults = [level for level in (4, 5, 7) if level in present]
    assert (strangers is None) == (not defaults)
    if strangers is not None:
        assert strangers[1] == float(defaults[0] + 1)


def test_a_limit_of_another_key_or_an_address_or_below_zero_limits_no_client() -> None:
    made = image(
        ((("user", "u"),), "consumer_byte_rate", 5.0),
        ((("ip", "10.0.0.1"),), CONNECTION_CREATION_RATE, 5.0),
        ((("client-id", "c"),), PRODUCER_BYTE_RATE, -1.0),
    )
    assert not QuotaLimits(made, PRODUCER_BYTE_RATE)
    assert QuotaLimits(made, "consumer_byte_rate").find("u", "anything") == (Share("u", ""), 5.0)


def test_an_address_has_its_own_limit_or_the_default() -> None:
    own = ((("ip", "10.0.0.1"),), CONNECTION_CREATION_RATE, 5.0)
    everybody = ((("ip", None),), CONNECTION_CREATION_RATE, 2.0)
    assert not AddressLimits(image())
    assert AddressLimits(image(own)).find("10.0.0.2") is None
    both = AddressLimits(image(own, everybody))
    assert both
    assert (both.find("10.0.0.1"), both.find("10.0.0.2")) == (5.0, 2.0)
