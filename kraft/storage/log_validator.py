"""Decides whether a batch may be appended, and in which form. Nothing is written here.

A client's batch is checked by its header (size, CRC, magic, record count against offsets, sequence), then by its
records (`kraft.storage.record_validator`). If `kraft.produce.validate.records` is off, records are checked only when
the topic's configuration requires it (compaction needs keys, compression.type may force another codec) or the header is
implausible. Error codes are those of Kafka 4.3 for the same bytes.
"""

from __future__ import annotations

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import with_max_timestamp
from kraft.protocol.records.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    CompressionError,
    check_frame,
)
from kraft.protocol.records.record import RECORD_BYTES_MIN, InvalidRecord, check_lengths
from kraft.protocol.records.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CREATE_TIME,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_FLAG,
    Buffer,
    CorruptBatch,
    RecordBatch,
)
from kraft.storage.log_config import LogConfig
from kraft.storage.record_validator import (
    DECODED_BYTES_MAX,
    target_codec,
    timestamp_in_bounds,
    validate_at_once,
    validate_records,
)
from kraft.world.steps import Steps, at_once

RECODED_INLINE_BYTES_MAX = 2048
INLINE_BYTES_MAX = {NONE: 128 << 10, GZIP: 2048, SNAPPY: 16 << 10, LZ4: 16 << 10, ZSTD: 16 << 10}
INLINE_RECORDS_MAX = 1000
"""Batches up to this number of bytes and records are checked inline: passing one to a thread costs 100 us, which is
more than the check. In the worst case it takes a few milliseconds. RECODED_INLINE_BYTES_MAX applies to a batch that is
recompressed."""
ATTRIBUTES_AT = 22
"""Position of the lower byte of a batch's attributes."""
COUNT_AT = HEADER_SIZE - 4
OLD_MAGICS = (0, 1)
"""The record formats before 2 (Kafka 0.10 and older)."""
CHECKED_RECORDS = 16
"""The number of records of an uncompressed batch whose lengths are checked. The lengths of all records are checked in a
batch of fewer records, or of records of at least CHECKED_WHOLLY_RECORD_BYTES on average."""
CHECKED_WHOLLY_RECORD_BYTES = 2048
EXPANSION_MAX = {GZIP: 1032, SNAPPY: 22, LZ4: 255, ZSTD: 1 << 15}
"""Most bytes that one compressed byte can expand to, by codec. Zstandard's shortest block has four bytes and expands to
128 KiB."""


class AppendOrigin:
    """The origin of an append, which decides the checks."""

    CLIENT = 0
    REPLICATION = 1
    COORDINATOR = 2
    RAFT_LEADER = 3


class NotOneBatch(ApiError):
    """Raised when a partition of a Produce does not hold exactly one record batch. It is refused before any log is
    consulted."""


def single_batch(records: Buffer | None) -> RecordBatch:
    """Return the one batch of a partition in a Produce. Raises NotOneBatch with Kafka's code for none, several, an old
    format, or a torn batch."""
    size = 0 if records is None else len(records)
    if records is None or size < LOG_OVERHEAD:
        raise NotOneBatch(ErrorCode.INVALID_RECORD, "a Produce must hold one record batch for each partition")
    if size <= 16 or size < HEADER_SIZE:
        raise NotOneBatch(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too few for a record batch")
    batch = RecordBatch(records)
    if batch.size < HEADER_SIZE and batch.magic == MAGIC:
        raise NotOneBatch(ErrorCode.CORRUPT_MESSAGE, f"a record batch of {batch.size} bytes, less than its header")
    if batch.magic != MAGIC:
        code = ErrorCode.INVALID_RECORD if batch.magic in OLD_MAGICS else ErrorCode.CORRUPT_MESSAGE
        raise NotOneBatch(code, f"record format {batch.magic}: only 2 is accepted")
    if batch.size > size:
        raise NotOneBatch(ErrorCode.INVALID_RECORD, "a Produce must hold one whole record batch for each partition")
    if batch.size < size:
        raise NotOneBatch(ErrorCode.INVALID_RECORD, "a Produce may hold only one record batch for each partition")
    return batch


class ValidatedBatch:
    """The result of `validated_for_leader` under `config`: the batch, or the error."""

    __slots__ = ("batch", "config", "problem")

    def __init__(self, config: LogConfig, batch: RecordBatch | None, problem: ApiError | None) -> None:
        self.config = config
        self.batch = batch
        self.problem = problem

    def outcome(self) -> RecordBatch:
        """Return the batch, or raise the ApiError."""
        if self.problem is not None:
            raise self.problem
        assert self.batch is not None
        return self.batch


def validated_for_leader(records: Buffer, config: LogConfig, now_ms: int) -> Steps[ValidatedBatch]:
    """Validate a client's batch like `batch_for_leader`, in steps. Its jobs touch only their arguments, so they may run
    in threads."""
    try:
        outcome = _validation(single_batch(records), config, AppendOrigin.CLIENT, now_ms)
        return ValidatedBatch(config, outcome if isinstance(outcome, RecordBatch) else (yield from outcome), None)
    except ApiError as problem:
        return ValidatedBatch(config, None, problem)


def batch_for_leader(
    records: Buffer, config: LogConfig, origin: int, now_ms: int, validated: ValidatedBatch | None = None
) -> RecordBatch:
    """Return the batch to append: the one in `records`, or a rewritten one if the topic requires it. `validated` is
    used as it is if its configuration is the same. Offsets and epoch are still the producer's. Raises ApiError."""
    if validated is not None and validated.config is config:
        return validated.outcome()
    outcome = _validation(single_batch(records), config, origin, now_ms)
    return outcome if isinstance(outcome, RecordBatch) else at_once(outcome)


def takes_long_to_validate(records: Buffer, config: LogConfig, now_ms: int) -> bool:
    """Whether a client's batch is large and its records must be checked. False for a malformed request."""
    size = len(records)
    if size < HEADER_SIZE:
        return False
    source = records[ATTRIBUTES_AT] & CODEC_MASK
    if source >= len(CODEC_NAMES):
        return False
    target = source if config.compression_type == "producer" else target_codec(config, source)
    bytes_max = INLINE_BYTES_MAX[source] if source == target else RECODED_INLINE_BYTES_MAX
    if size <= bytes_max and int.from_bytes(records[COUNT_AT:HEADER_SIZE], "big", signed=True) <= INLINE_RECORDS_MAX:
        return False
    try:
        batch = single_batch(records)
    except NotOneBatch:
        return False
    return config.validate_records or config.compact or target != source or _header_is_suspect(batch, config, now_ms)


def _validation(batch: RecordBatch, config: LogConfig, origin: int, now_ms: int) -> RecordBatch | Steps[RecordBatch]:
    """Return the batch to append, or the steps that validate its records if that is needed. Raises ApiError."""
    # What a coordinator writes at once must be one batch, or half of it could be read. The segment bounds it.
    if origin not in (AppendOrigin.RAFT_LEADER, AppendOrigin.COORDINATOR) and batch.size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {batch.size} bytes, more than max.message.bytes ({config.max_message_bytes}): send smaller "
            "batches, or raise max.message.bytes",
        )
    try:
        batch.verify_crc()
    except CorruptBatch as problem:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(problem)) from problem
    if origin != AppendOrigin.CLIENT:
        if config.log_append_time or batch.attributes & TIMESTAMP_TYPE_FLAG:
            return _with_log_append_time(batch, config, now_ms)
        return batch
    source = batch.attributes & CODEC_MASK
    _check_client_header(batch, source)
    codec = source if config.compression_type == "producer" else target_codec(config, source)
    looks_inside = config.validate_records or config.compact or codec != source
    if source != NONE:
        _check_compressed(batch, source, config)
    elif not looks_inside:
        _check_lengths(batch)
    elif codec == NONE and (usual := validate_at_once(batch, config, now_ms)) is not None:
        return usual
    if looks_inside or _header_is_suspect(batch, config, now_ms):
        return validate_records(batch, config, codec, now_ms)
    return _with_log_append_time(batch, config, now_ms)


def _check_client_header(batch: RecordBatch, codec: int) -> None:
    if batch.base_offset != 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"the base offset of a produced batch must be 0, it is {batch.base_offset}"
        )
    if codec >= len(CODEC_NAMES):
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression codec {codec}")
    if batch.last_offset_delta < 0 or batch.count <= 0 or batch.count != batch.last_offset_delta + 1:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"{batch.count} records do not fit a last offset delta of {batch.last_offset_delta}",
        )
    if batch.attributes & CONTROL_FLAG:
        raise ApiError(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"the sequence {batch.base_sequence} is invalid for producer {batch.producer_id}"
        )


def _check_lengths(batch: RecordBatch) -> None:
    """Refuse an uncompressed batch that cannot hold `count` records: it would stall readers or repeat offsets."""
    count, size = batch.count, batch.length + (LOG_OVERHEAD - HEADER_SIZE)
    start = batch.position + HEADER_SIZE
    checked_max = count if size >= count * CHECKED_WHOLLY_RECORD_BYTES else CHECKED_RECORDS
    try:
        check_lengths(batch.buffer, start, start + size, count, checked_max)
    except InvalidRecord as problem:
        raise ApiError(ErrorCode.INVALID_RECORD, f"a batch of {batch.size} bytes: {problem}") from problem


def _check_compressed(batch: RecordBatch, codec: int, config: LogConfig) -> None:
    """Refuse a batch whose frame Java consumers cannot read, or that cannot decompress to `count` records."""
    size = batch.length + (LOG_OVERHEAD - HEADER_SIZE)
    try:
        check_frame(codec, batch.view[HEADER_SIZE:])
    except CompressionError as problem:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a batch of {batch.size} bytes: {problem}") from problem
    bytes_max = min(size * EXPANSION_MAX[codec], max(DECODED_BYTES_MAX, config.max_message_bytes))
    if batch.count * RECORD_BYTES_MIN > bytes_max:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"a batch of {batch.size} bytes: {size} bytes in {CODEC_NAMES[codec]} cannot hold {batch.count} records",
        )


def _header_is_suspect(batch: RecordBatch, config: LogConfig, now_ms: int) -> bool:
    """Whether the records must be checked, to correct implausible timestamps or to name the records at fault.

    Only the base timestamp and the largest timestamp are compared with the bounds, since the header has no others.
    """
    if batch.max_timestamp < batch.base_timestamp:
        return True
    if config.log_append_time:
        return batch.timestamp_type == LOG_APPEND_TIME
    return not (
        timestamp_in_bounds(batch.base_timestamp, config, now_ms)
        and timestamp_in_bounds(batch.max_timestamp, config, now_ms)
    )


def _with_log_append_time(batch: RecordBatch, config: LogConfig, now_ms: int) -> RecordBatch:
    """Set the append time if the topic uses LogAppendTime; otherwise clear a stray LogAppendTime flag."""
    if config.log_append_time:
        return RecordBatch(with_max_timestamp(batch, LOG_APPEND_TIME, now_ms))
    if batch.timestamp_type == LOG_APPEND_TIME:
        return RecordBatch(with_max_timestamp(batch, CREATE_TIME, batch.max_timestamp))
    return batch
