"""docs/api-support.md says what the registries say."""

from __future__ import annotations

from kraft.handlers.all_handlers import broker_registry, controller_registry
from tests.vectors.generate_docs import TARGET, _cell, advertised, document, recorded


def test_the_api_support_page_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == document(), "run make docs"


def test_no_api_is_advertised_that_apache_kafka_does_not_have() -> None:
    for registry, case in ((broker_registry(), "api-versions"), (controller_registry(), "api-versions-controller")):
        kafkas = recorded(case)
        for key, (low, high) in advertised(registry).items():
            assert kafkas[key][0] <= low <= high <= kafkas[key][1], f"API {key} on {registry.listener}"


def test_apis_with_less_support_than_kafka_are_marked() -> None:
    assert _cell({1: (4, 18)}, {1: (4, 18)}, 1) == "4-18"
    assert _cell({1: (4, 17)}, {1: (4, 18)}, 1) == "**4-17**"
    assert _cell({}, {1: (4, 18)}, 1) == "**-**"
    assert _cell({}, {}, 1) == ""
