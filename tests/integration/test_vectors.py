"""Our answers to every scripted request beside those that Apache Kafka 4.4.0 gave (tests/vectors)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kraft.handlers.all_handlers import broker_registry, controller_registry
from kraft.protocol import api_keys
from tests.capabilities import require_capability
from tests.vectors.case import BROKER, CONTROLLER, Ask
from tests.vectors.cases import MODULES
from tests.vectors.compare import RECORDED, Report, ask_all, changed, compare, differing, from_text, to_text, together
from tests.vectors.differences import DIFFERENCES, reason_for
from tests.vectors.masks import Masks
from tests.vectors.plain import message_class
from tests.vectors.targets import apache_kafka, our_node

NODES = 4
"""How many nodes share the modules: scripts pause for most of their time."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One run of everything, each module against one of some fresh nodes."""

    # Here: pytest's first temporary directory is made twice where two threads ask for it at once.
    places = [tmp_path_factory.mktemp("vectors") for _ in range(NODES)]

    def share(number: int) -> Report:
        with our_node(places[number]) as target:
            if number > 0:  # The first module wants a node without coordinators; the others, one that has them.
                target.wait_for_coordinators()
            return compare(target, list(MODULES.items())[number::NODES])

    with ThreadPoolExecutor(NODES) as pool:
        compared = together(pool.map(share, range(NODES)))
    print(compared.summary())
    return compared


@pytest.fixture(scope="module")
def comparison(report: Report) -> dict[str, list[str]]:
    """module -> what differs and is not explained."""
    found: dict[str, list[str]] = {module: [] for module in MODULES}
    for mismatch in report.unexplained:
        found[mismatch.place.split("/")[0]].append(str(mismatch))
    return found


@pytest.mark.parametrize("module", MODULES)
def test_responses_equal_those_of_apache_kafka(comparison: dict[str, list[str]], module: str) -> None:
    assert not comparison[module], "\n".join(comparison[module][:40])


def test_every_declared_difference_still_occurs(report: Report) -> None:
    assert [each.name for each in DIFFERENCES if not report.deliberate[each.name]] == []


def test_every_case_was_recorded() -> None:
    for module, cases in MODULES.items():
        recorded = from_text((RECORDED / f"{module}.json").read_text())
        assert [case.name for case in cases] == list(recorded), module


def test_every_served_api_was_recorded_in_every_version_on_every_listener() -> None:
    asked = set()
    for module, cases in MODULES.items():
        recorded = from_text((RECORDED / f"{module}.json").read_text())
        for case in cases:
            shown = [step for step in case.steps if isinstance(step, Ask) and not step.hidden]
            keys = [
                (step.listener, message_class(f"{step.api or case.api}Request").API_KEY, step.version) for step in shown
            ]
            asked |= {
                (listener, key, run if version is None else version)
                for run in recorded[case.name]
                for listener, key, version in keys
            }
    served = {
        (listener, handler.key, version)
        for listener, registry in ((BROKER, broker_registry()), (CONTROLLER, controller_registry()))
        for handler in registry.handlers()
        for version in range(handler.min_version, handler.max_version + 1)
    }
    assert sorted(f"{listener}: {api_keys.name_of(key)} {version}" for listener, key, version in served - asked) == []


def test_case_names_are_unique() -> None:
    """Topics and groups are named after them."""
    names = [case.name for cases in MODULES.values() for case in cases]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_a_differing_field_is_found_at_any_depth() -> None:
    before = [{"topics": [{"name": "$topic", "error_code": 0}], "throttle_time_ms": 0}]
    after = [{"topics": [{"name": "$topic", "error_code": 3}]}, "connection closed"]
    assert [str(each) for each in differing("m/c/1", before, after)] == [
        "m/c/1/0/throttle_time_ms: Kafka 0, here '<absent>'",
        "m/c/1/0/topics.0.error_code: Kafka 0, here 3",
        "m/c/1/1/: Kafka '<absent>', here 'connection closed'",
    ]


def test_a_deliberate_difference_covers_only_its_own_field() -> None:
    assert reason_for("produce/null-records/7/0/responses.0.name") is not None
    assert reason_for("produce/good/7/0/responses.0.name") is None


def test_changes_between_two_recordings_are_reported() -> None:
    before = {"same": {0: [{"a": 1}]}, "gone": {0: [{"a": 1}]}, "other": {1: [{"a": 1}]}}
    after = {"same": {0: [{"a": 1}]}, "new": {2: [{"a": 1}]}, "other": {1: [{"a": 2}]}}
    assert [str(each) for each in changed("m", before, after)] == [
        "m/gone/0/0/a: Kafka 1, here '<absent>'",
        "m/new/2/0/a: Kafka '<absent>', here 1",
        "m/other/1/0/a: Kafka 1, here 2",
    ]


@pytest.mark.soak
@pytest.mark.java
@pytest.mark.timeout(1800)
def test_apache_kafka_still_gives_the_recorded_responses(tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    found = []
    with apache_kafka(tmp_path) as target:
        for module, answered in ask_all(target):
            found += [
                str(each) for each in changed(module, from_text((RECORDED / f"{module}.json").read_text()), answered)
            ]
    assert not found, "record-vectors, and explain:\n" + "\n".join(found[:40])


def test_equal_outcomes_share_a_line_and_are_read_back_unchanged() -> None:
    module = {"case": {0: [{"a": 1}], 1: [{"a": 1}], 2: [{"a": 2}]}}
    text = to_text(module)
    assert text.count("versions") == 2
    assert from_text(text) == module


def test_masks_keep_significant_values() -> None:
    masks = Masks({"topic": "made-up-name", "topic.id": b"0123456789abcdef"}, ("moving",))
    answer = {
        "name": "made-up-name",
        "topic_id": b"0123456789abcdef",
        "error_message": "why",
        "port": 9092,
        "moving": 5,
        "producer_id": -1,
        "offset": 7,
    }
    assert masks.of(answer) == {
        "name": "$topic",
        "topic_id": "$topic.id",
        "error_message": "<text>",
        "port": "<port>",
        "moving": "<masked>",
        "producer_id": -1,
        "offset": 7,
    }


def test_every_case_has_a_step_that_is_compared() -> None:
    for cases in MODULES.values():
        for case in cases:
            assert any(not (isinstance(step, Ask) and step.hidden) for step in case.steps), case.name


def test_every_module_has_a_recording(tmp_path: Path) -> None:
    assert sorted(path.stem for path in RECORDED.glob("*.json")) == sorted(MODULES)
