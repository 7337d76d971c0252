"""docs/api-support.md says what the registries say."""

from __future__ import annotations

import pytest

from kraft.handlers.all_handlers import broker_registry, controller_registry
from kraft.handlers.registry import Registry
from tests.vectors.generate_docs import TARGET, _cell, advertised, document, missing, recorded


def test_the_api_support_page_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == document(), "run make docs"


@pytest.mark.parametrize(
    ("registry", "case"), [(broker_registry(), "api-versions"), (controller_registry(), "api-versions-controller")]
)
def test_a_listener_advertises_every_api_of_apache_kafka_in_its_versions_and_no_other(
    registry: Registry, case: str
) -> None:
    assert list(missing(advertised(registry), case)) == []
    assert advertised(registry) == recorded(case)


def test_apis_with_less_support_than_kafka_are_marked() -> None:
    assert _cell({1: (4, 18)}, {1: (4, 18)}, 1) == "4-18"
    assert _cell({1: (4, 17)}, {1: (4, 18)}, 1) == "**4-17**"
    assert _cell({}, {1: (4, 18)}, 1) == "**-**"
    assert _cell({}, {}, 1) == ""


def test_an_api_that_only_kafka_serves_is_missing() -> None:
    ours = {key: versions for key, versions in recorded("api-versions").items() if key != 3}
    ours[0] = (0, 12)
    assert list(missing(ours, "api-versions")) == ["Produce (0) 0-13", "Metadata (3) 0-13"]
