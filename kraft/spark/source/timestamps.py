"""The range of Kafka's timestamps (ms) that Spark can represent (us)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kraft.spark.errors import SourceError

TIMESTAMP_MS_MAX = (2**63 - 1) // 1000


def check_timestamps(milliseconds: npt.NDArray[np.int64], topic: str, partition: int, first_offset: int) -> None:
    """Raise SourceError if a timestamp would overflow Spark's type, in either direction. The array is not empty."""
    most, least = milliseconds.max(), milliseconds.min()
    if most > TIMESTAMP_MS_MAX or least < -TIMESTAMP_MS_MAX:
        where = f"topic {topic} partition {partition} from offset {first_offset}"
        value = most if most > TIMESTAMP_MS_MAX else least
        detail = (
            f"A record at {where} has timestamp value {value} that overflows Spark's microsecond-precision "
            "TimestampType."
        )
        raise SourceError("KAFKA_MALFORMED_RECORD_TIMESTAMP", detail)
