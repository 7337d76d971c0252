"""Crafted batches beside what Apache Kafka answered to them (tests/vectors), without a node: the code, and what a log
holds then. Where we answer otherwise, tests/vectors/differences.py says why."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.storage.log_config import LogConfig
from tests.unit.storage.support import Machine, batches_in, found_by_time
from tests.vectors.case import Ask, Case
from tests.vectors.cases import MODULES
from tests.vectors.cases.batch_headers import MAX_TIME
from tests.vectors.compare import RECORDED, from_text
from tests.vectors.differences import reason_for
from tests.vectors.frames import patched
from tests.vectors.plain import record_values

HERE = ("frames", "batch_headers")
NOT_OF_THE_LOG = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
"""Codes that are answered before a log is asked."""
RECORDED_AT_MS = 1_795_000_000_000
"""Times of records are bounded by that of the append."""
NUMBERS = ("message.timestamp.before.max.ms",)


def config_of(case: Case) -> LogConfig:
    asked = next(step for step in case.steps if isinstance(step, Ask) and step.api == "CreateTopics")
    assert not isinstance(asked.body, bytes)
    given = {each["name"]: each["value"] for each in asked.body["topics"][0]["configs"]}
    return LogConfig.of({name: int(value) if name in NUMBERS else value for name, value in given.items()})


def records_of(case: Case) -> bytes:
    asked = next(step for step in case.steps if isinstance(step, Ask) and not step.hidden)
    assert not isinstance(asked.body, bytes)
    built: bytes = asked.body["topic_data"][0]["partition_data"][0]["records"].build()
    return built


def answered(module: str, case: Case) -> dict[str, Any]:
    recorded = from_text((RECORDED / f"{module}.json").read_text())[case.name][9]
    answer: dict[str, Any] = recorded[0]["responses"][0]["partition_responses"][0]
    return answer


CASES = [(module, case) for module in HERE for case in MODULES[module]]


@pytest.mark.parametrize(("module", "case"), CASES, ids=[case.name for _, case in CASES])
def test_a_crafted_batch_is_accepted_or_refused_as_by_apache_kafka(module: str, case: Case) -> None:
    expected = answered(module, case)["error_code"]
    if expected in NOT_OF_THE_LOG:
        return
    log = Machine().log(config_of(case))
    try:
        log.append_as_leader(records_of(case), 0, now_ms=RECORDED_AT_MS)
        code = ErrorCode.NONE
    except ApiError as problem:
        code = problem.code
    if code != expected:
        assert reason_for(f"{module}/{case.name}/9/0/responses.0.partition_responses.0.error_code") is not None, code
    for batch in batches_in(log) if log.log_end_offset else ():
        batch.verify_crc()
        records = record_values(batch)
        assert not isinstance(records, str), "stored, and cannot be read"
        assert batch.max_timestamp == max(-1, *(record["timestamp"] for record in records))
        assert [record["offset"] for record in records] == list(range(log.log_end_offset))


def test_current_records_behind_a_very_old_record_are_found_by_time_and_kept_by_retention() -> None:
    """As KafkaJS sends them where only the first message has a timestamp: the header says its time."""
    now_ms, then_ms = RECORDED_AT_MS, RECORDED_AT_MS - 10**9
    records = [Record(0, then_ms, None, b"then"), Record(1, now_ms, None, b"now"), Record(2, now_ms, None, b"now")]
    sent = patched(MAX_TIME, ">q", then_ms)(bytearray(build_batch(records)))
    log = Machine().log(LogConfig(retention_ms=10**8))
    log.append_as_leader(bytes(sent), 0, now_ms=now_ms)
    log.update_high_watermark(log.log_end_offset)
    assert found_by_time(log, then_ms + 1) == (now_ms, 1, 0)
    assert log.delete_old_segments(now_ms).count == 0
    assert log.delete_old_segments(now_ms + 10**8 + 1).count == 1
