"""How refusals are told on a terminal, and to those who tell the code apart."""

from __future__ import annotations

import pytest

from kraft.admin.errors import Refused, check
from kraft.protocol.error_codes import ErrorCode, message_of

MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("refused", "text", "sentence"),
    [
        (
            Refused(ErrorCode.INVALID_PARTITIONS, "topic t", "there are 3 already"),
            "topic t: there are 3 already (INVALID_PARTITIONS)",
            "topic t: there are 3 already",
        ),
        (
            Refused(MISSING, "topic t", message_of(MISSING)),
            "topic t: there is no such topic or partition (UNKNOWN_TOPIC_OR_PARTITION)",
            "topic t does not exist",
        ),
        (
            Refused(MISSING, "t-7", "the topic has partitions 0 to 2"),
            "t-7: the topic has partitions 0 to 2 (UNKNOWN_TOPIC_OR_PARTITION)",
            "t-7: the topic has partitions 0 to 2",
        ),
        (
            Refused(ErrorCode.REQUEST_TIMED_OUT),
            f"{message_of(ErrorCode.REQUEST_TIMED_OUT)} (REQUEST_TIMED_OUT)",
            message_of(ErrorCode.REQUEST_TIMED_OUT),
        ),
    ],
)
def test_a_refusal_names_its_resource_and_reason(refused: Refused, text: str, sentence: str) -> None:
    assert (str(refused), refused.message, refused.sentence) == (text, text, sentence)


def test_only_an_error_code_is_a_refusal() -> None:
    check(ErrorCode.NONE, "topic t", "whatever")
    with pytest.raises(Refused) as told:
        check(ErrorCode.POLICY_VIOLATION, "topic t", "no")
    assert (told.value.code, told.value.name) == (ErrorCode.POLICY_VIOLATION, "POLICY_VIOLATION")
