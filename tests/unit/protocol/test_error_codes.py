from kio.schema.errors import ErrorCode as KioErrorCode

from kraft.protocol import error_codes
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_messages import MESSAGES

CODES = {name: code for name, code in vars(ErrorCode).items() if not name.startswith("_")}


def test_the_error_codes_run_from_minus_one_without_a_gap() -> None:
    assert sorted(CODES.values()) == list(range(-1, 137))
    assert list(MESSAGES) == list(range(-1, 137))


def test_error_codes_have_names_and_sentences() -> None:
    for name, code in CODES.items():
        assert error_codes.name_of(code) == name
        assert error_codes.message_of(code).endswith(".")
        assert len(error_codes.message_of(code)) < 120


def test_retriable_error_codes_are_marked() -> None:
    assert error_codes.is_retriable(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert error_codes.is_retriable(ErrorCode.REQUEST_TIMED_OUT)
    assert not error_codes.is_retriable(ErrorCode.NONE)
    assert not error_codes.is_retriable(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert not error_codes.is_retriable(ErrorCode.MESSAGE_TOO_LARGE)


def test_names_and_retriability_agree_with_an_independent_implementation() -> None:
    for theirs in KioErrorCode:
        assert error_codes.name_of(theirs.value).lower() == theirs.name
        assert error_codes.is_retriable(theirs.value) == theirs.retriable, theirs.name


def test_an_unknown_error_code_has_a_name_and_is_not_retriable() -> None:
    assert error_codes.name_of(999) == "ERROR_999"
    assert "999" in error_codes.message_of(999)
    assert not error_codes.is_retriable(999)
