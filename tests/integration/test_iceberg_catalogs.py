"""Iceberg tables in REST and Glue catalogs: creation, evolution, commits of batches, expiry, and conflicts. The REST
catalog is Iceberg's own server. Then `kraft spark` over the REST catalog, with the same options for each command."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from moto import mock_aws

from jepsen.java.jars import POMS, jars
from kraft.spark.jobs.iceberg import TableName, commit_batch, ensure_table, evolve_table, require_table
from kraft.spark.jobs.iceberg_files import data_files, table_layout
from kraft.spark.jobs.maintain import Maintain, maintain
from tests.capabilities import require_capability
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft
from tests.integration.spark_commands import BASE_MS, Sent, send
from tests.unit.spark.test_table_evolution import FIRST, NEW, OLD, PARTS, SECOND, both, columns, rows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@contextlib.contextmanager
def rest_catalog(home: Path) -> Iterator[dict[str, str]]:
    """Iceberg's REST catalog over a warehouse below `home`. Yields the properties of a client."""
    require_capability("java17")
    require_capability("mvn")
    (home / "warehouse").mkdir(parents=True)
    command = ["java", "-Xmx256m", "-cp", f"{jars('iceberg_rest')}/*", str(POMS / "iceberg_rest" / "RestCatalog.java")]
    with subprocess.Popen([*command, str(home)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield {"type": "rest", "uri": process.stdout.readline().strip()}
        finally:
            process.kill()


@contextlib.contextmanager
def glue_catalog(home: Path) -> Iterator[dict[str, str]]:
    with mock_aws():
        keys = {"glue.region": "us-east-1", "glue.access-key-id": "key", "glue.secret-access-key": "secret"}
        yield {"type": "glue", "warehouse": f"file://{home}/warehouse", **keys}


def commit(name: TableName, ddl: str, number: int, value: Mapping[str, object]) -> bool:
    """Commit a batch of one record, as a run with this schema does."""
    table = ensure_table(name, columns(ddl), PARTS)
    evolve_table(name, table, columns(ddl))
    layout = table_layout(table, f"run{number}", "", "snappy")
    files, batch = layout.files(), rows(ddl, number, dict(value))
    files.add(batch, batch)
    return commit_batch(table, "q", number, data_files(table, layout, files.end().to_pylist()))


@pytest.mark.parametrize("catalog", [rest_catalog, glue_catalog])
def test_a_table_of_a_catalog_is_made_evolved_committed_to_once_and_expired(
    catalog: Callable[[Path], contextlib.AbstractContextManager[dict[str, str]]], tmp_path: Path
) -> None:
    with catalog(tmp_path / "home") as properties:
        name = TableName(table="shop.orders", catalog="test", properties=properties)
        assert commit(name, FIRST, 0, OLD)
        stale = require_table(name)
        number = stale.schema().find_field("value.id").field_id
        assert commit(name, SECOND, 1, NEW)
        layout = table_layout(stale, "late", "", "snappy")
        assert not commit_batch(stale, "q", 1, data_files(stale, layout, [])), "a late commit of the same batch"
        table = require_table(name)
        assert table.schema().find_field("value.id").field_id == number
        both([each["value"] for each in table.scan().to_arrow().sort_by("offset").to_pylist()])
        wanted = Maintain(table=name, keep=timedelta(days=7))
        done = maintain(wanted, datetime.now(UTC) + timedelta(days=8), lambda _: None)
        assert (done["snapshots_before"], done["snapshots_after"]) == (2, 1)
        assert require_table(name).scan().to_arrow().num_rows == 2


@pytest.mark.timeout(300)
def test_every_command_of_a_table_works_with_a_rest_catalog(cluster: Cluster, kraft: Kraft, tmp_path: Path) -> None:
    cluster.create("ice-rest", 2)
    send(cluster, "ice-rest", [Sent(b"%d" % each, b"k", each % 2, BASE_MS) for each in range(200)])
    with rest_catalog(tmp_path / "home") as properties:
        given = [part for name, value in properties.items() for part in ("--catalog-property", f"{name}={value}")]
        to = ["--table", "shop.rest", "--catalog", "test", *given, "-o", "json"]
        checkpoint = ["--checkpoint", str(tmp_path / "checkpoint")]
        archived = kraft("archive", "ice-rest", "--format", "iceberg", *to, *checkpoint, "--records-per-batch", "100")
        assert (archived.code, archived.document["records"]) == (0, 200), archived
        compacted = kraft("compact", *to)
        assert compacted.document["files_after"] < compacted.document["files_before"], compacted
        expired = kraft("maintain", *to, "--expire-snapshots-older-than", "0s", "--metrics-port", "0")
        assert (expired.code, expired.document["snapshots_after"]) == (0, 1), expired
        assert "metrics at http://127.0.0.1:" in expired.err
        same = kraft("verify", "ice-rest", *to, "--metrics-port", "0")
        assert (same.code, same.document["records"]) == (0, 200), same
        assert "metrics at http://127.0.0.1:" in same.err
