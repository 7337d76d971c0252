"""What clients hear that may do little: field by field what Apache Kafka 4.4.0 told them, at both doors."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kraft.protocol.api_keys import ApiKey
from tests.capabilities import require_capability
from tests.vectors.denied.controller_requests import ONLY_ADVERTISED_BY_KAFKA
from tests.vectors.denied.matrix import CHANGES, DOORS, apache_kafka, ask_all, compare, differing, recorded
from tests.vectors.denied.principals import PRINCIPALS
from tests.vectors.plain import message_class

REFUSED_TO_ALL = {
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
}
"""While their features are off, as in the recorded clusters. Rights for share and streams groups are tested in
test_share_rights.py, test_share_group_states.py and test_streams_groups.py of tests/unit/handlers."""
NEEDS_NO_RIGHT = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, *REFUSED_TO_ALL}


def test_a_client_without_permission_gets_the_responses_of_apache_kafka(tmp_path: Path) -> None:
    differences = compare(tmp_path)
    assert not differences, "\n".join(differences[:40])


@pytest.mark.parametrize("door", DOORS)
def test_every_served_api_was_recorded_in_every_version_for_every_principal(door: str) -> None:
    asked: dict[tuple[int, str], set[int]] = {}
    for place, answers in recorded().items():
        where, _, request = place.partition("/")
        if where == door:
            key = message_class(f"{request.partition(' ')[0]}Request").API_KEY
            for who in answers:
                user, _, version = who.rpartition(" v")
                asked.setdefault((key, user), set()).add(int(version))
    changing = {(message_class(f"{api}Request").API_KEY, user) for (api, _), users in CHANGES.items() for user in users}
    registry, _ = DOORS[door]
    not_asked = NEEDS_NO_RIGHT | (ONLY_ADVERTISED_BY_KAFKA if door == "controller" else set())
    for handler in registry().handlers():
        served = {*range(handler.min_version, handler.max_version + 1)}
        for user in PRINCIPALS:
            if handler.key not in not_asked and (handler.key, user) not in changing:
                assert asked.get((handler.key, user)) == served, f"{handler.key} {user}"


def test_only_recorded_requests_are_listed_as_exceptions() -> None:
    names = {
        (api, name) for _, asked in DOORS.values() for name, api, _ in asked({"hidden": b"1" * 16, "shown": b"2" * 16})
    }
    assert {*CHANGES} <= names
    assert {user for users in CHANGES.values() for user in users} <= {*PRINCIPALS}


@pytest.mark.soak
@pytest.mark.java
def test_apache_kafka_still_gives_the_recorded_responses(tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    with apache_kafka(tmp_path) as addresses:
        theirs = trio.run(ask_all, addresses)
    differences = differing(recorded(), theirs)
    assert not differences, "record-vectors, and explain:\n" + "\n".join(differences[:40])
