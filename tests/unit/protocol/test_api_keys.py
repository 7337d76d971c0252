import pytest

from kraft.common.errors import ProtocolError
from kraft.protocol import api_keys
from kraft.protocol.api_keys import ApiKey

KEYS = api_keys.known_keys()
NAMES = {key: name for name, key in vars(ApiKey).items() if not name.startswith("_")}


def test_every_api_key_of_the_schemas_has_its_name_and_retired_keys_have_none() -> None:
    assert set(NAMES) == set(KEYS)
    assert set(range(95)) - set(KEYS) == {4, 5, 6, 7}
    for key in KEYS:
        assert NAMES[key].replace("_", "").lower() == api_keys.name_of(key).lower()


@pytest.mark.parametrize("key", KEYS)
def test_the_api_table_agrees_with_the_message_classes(key: int) -> None:
    for cls, suffix in ((api_keys.request_class(key), "Request"), (api_keys.response_class(key), "Response")):
        assert cls.__name__ == api_keys.name_of(key) + suffix
        assert key == cls.API_KEY
        assert api_keys.valid_versions(key) == cls.VALID_VERSIONS
        first = api_keys.flexible_from(key)
        assert (None if first is None else (first, cls.VALID_VERSIONS[1])) == cls.FLEXIBLE_VERSIONS


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey.OFFSET_DELETE, 0, 1, 0),
        (ApiKey.VOTE, 0, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.API_VERSIONS, 4, 2, 0),
        (ApiKey.API_VERSIONS, 32767, 2, 0),
    ],
)
def test_header_versions_follow_from_the_api_version(
    key: int, version: int, request_header: int, response_header: int
) -> None:
    assert api_keys.request_header_version(key, version) == request_header
    assert api_keys.response_header_version(key, version) == response_header


@pytest.mark.parametrize("key", [-1, 4, 7, 95, 32767])
def test_an_unknown_api_key_is_rejected_but_has_a_name_for_logs(key: int) -> None:
    for question in (
        api_keys.api_of,
        api_keys.valid_versions,
        api_keys.flexible_from,
        api_keys.request_class,
        api_keys.response_class,
    ):
        with pytest.raises(ProtocolError):
            question(key)
    assert api_keys.name_of(key) == f"Api{key}"


def test_forwardable_and_cluster_only_apis_are_marked() -> None:
    assert ApiKey.CREATE_TOPICS in api_keys.FORWARDABLE
    assert ApiKey.METADATA not in api_keys.FORWARDABLE
    assert ApiKey.VOTE in api_keys.CLUSTER_ACTIONS
    assert ApiKey.FETCH not in api_keys.CLUSTER_ACTIONS
    controller = {key for key in KEYS if "controller" in api_keys.api_of(key).listeners}
    assert controller >= api_keys.FORWARDABLE


def test_the_only_unstable_version_is_two_phase_commit() -> None:
    assert [key for key in KEYS if api_keys.api_of(key).highest_is_unstable] == [ApiKey.INIT_PRODUCER_ID]
