"""What each long job of `kraft spark` counts for Prometheus, beside what it has written."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kraft.spark.jobs import metrics
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft
from tests.integration.spark_commands import Sent, send

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
RECORDS = 60
"""In each of two topics: keys of one byte, values of two."""


class Counting:
    """Runs commands, and reads what each has counted in the end."""

    def __init__(self, kraft: Kraft, patch: pytest.MonkeyPatch) -> None:
        self.kraft = kraft
        self.made: list[metrics.JobMetrics] = []
        made, whole = self.made, metrics.JobMetrics

        def noted(command: str) -> metrics.JobMetrics:
            made.append(whole(command))
            return made[-1]

        patch.setattr(metrics, "JobMetrics", noted)

    def run(self, *arguments: str) -> dict[str, int]:
        """Records, bytes and batches that the command has written, and the lag where it is known."""
        outcome = self.kraft(*arguments)
        assert outcome.code == 0, outcome.err
        families = text_string_to_metric_families(self.made[-1].text())
        samples = {sample.name: sample for each in families for sample in each.samples}
        assert {sample.labels["command"] for sample in samples.values()} == {arguments[0]}
        names = ("records_total", "bytes_total", "batches_total", "lag_records")
        found = {name: samples.get(f"kraft_spark_{name}") for name in names}
        return {name.split("_")[0]: int(sample.value) for name, sample in found.items() if sample is not None}


@pytest.fixture
def counting(kraft: Kraft, monkeypatch: pytest.MonkeyPatch) -> Counting:
    return Counting(kraft, monkeypatch)


@pytest.fixture(scope="module")
def topics(cluster: Cluster) -> tuple[str, str]:
    for topic in ("left", "right"):
        cluster.create(topic, 1)
        send(cluster, topic, [Sent(b"%02d" % number, b"k", 0) for number in range(RECORDS)])
    return "left", "right"


@pytest.mark.usefixtures("topics")
def test_a_mirror_counts_records_and_the_bytes_of_keys_and_values(cluster: Cluster, counting: Counting) -> None:
    at = ("mirror", "left", "--to", cluster.bootstrap, "--target-topic", "copy", "--records-per-batch", "40")
    assert counting.run(*at) == {"records": RECORDS, "bytes": 3 * RECORDS, "batches": 2, "lag": 0}
    assert counting.run(*at) == {"records": 0, "bytes": 0, "batches": 0}


def test_a_mirror_of_several_topics_counts_all_of_them(
    topics: tuple[str, str], elsewhere: Cluster, counting: Counting
) -> None:
    found = counting.run("mirror", *topics, "--to", elsewhere.bootstrap)
    assert found == {"records": 2 * RECORDS, "bytes": 6 * RECORDS, "batches": 1, "lag": 0}


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_archives_and_their_compaction_count_all_topics_and_the_bytes_of_files(
    topics: tuple[str, str], counting: Counting, tmp_path: Path, form: str
) -> None:
    place = tmp_path / "archive"
    found = counting.run("archive", *topics, str(place), "--format", form, "--records-per-batch", "20")
    size = sum(each.stat().st_size for each in place.glob("topic=*/[!_]*/**/*.parquet"))
    assert found == {"records": 2 * RECORDS, "bytes": size, "batches": 6, "lag": 0}
    before = set(place.rglob("*.parquet"))
    found = counting.run("compact", str(place))
    merged = {each for each in place.rglob("*.parquet") if each not in before}
    # The newest batch of a plain archive is not merged.
    assert (found["records"], found["batches"]) == (2 * (RECORDS - 20 if form == "parquet" else RECORDS), 2)
    assert found["bytes"] == sum(each.stat().st_size for each in merged)


def test_an_iceberg_table_and_its_compaction_count_records_and_the_bytes_of_files(
    topics: tuple[str, str], counting: Counting, tmp_path: Path
) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    given = [part for name, value in catalog.items() for part in ("--catalog-property", f"{name}={value}")]
    table = ["--table", "shop.orders", "--catalog", "test", *given]
    found = counting.run("archive", *topics, "--format", "iceberg", *table, "--records-per-batch", "20")
    before = set((tmp_path / "warehouse").rglob("*.parquet"))
    size = sum(each.stat().st_size for each in before)
    assert found == {"records": 2 * RECORDS, "bytes": size, "batches": 6, "lag": 0}
    found = counting.run("compact", *table)
    merged = set((tmp_path / "warehouse").rglob("*.parquet")) - before
    size = sum(each.stat().st_size for each in merged)
    assert found == {"records": 2 * RECORDS, "bytes": size, "batches": 1}


@pytest.mark.parametrize(
    ("form", "text", "records", "size"),
    [
        ("text", "one\ntwo\n", 2, 6),
        ("csv", "id\na\nb\n", 2, 2 * len('{"id":"a"}')),
        ("json", '{"a": 1}\n\n', 1, len('{"a": 1}')),
    ],
)
def test_an_ingest_counts_records_and_the_bytes_of_their_values(
    counting: Counting, tmp_path: Path, form: str, text: str, records: int, size: int
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/1").write_text(text)
    found = counting.run("ingest", str(tmp_path / "files"), "--topic", f"of-{form}", "--format", form)
    assert found == {"records": records, "bytes": size, "batches": 1}
