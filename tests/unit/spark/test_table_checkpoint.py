"""The default checkpoint of a job that archives to an Iceberg table."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.spark.jobs.access import Access
from kraft.spark.jobs.archive_table import TableArchive, of_topic
from kraft.spark.jobs.iceberg import TableName
from kraft.spark.jobs.running import state_directory
from kraft.spark.jobs.topics import SeenTopic

FOUND = SeenTopic("cluster", None, 1)


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def checkpoint_of(**properties: str) -> str:
    table = TableName(table="shop.orders", catalog="prod", properties=properties)
    wanted = TableArchive(topic="", table=table, at=Access("127.0.0.1:9092"), by=("identity(partition)",))
    return str(of_topic(wanted, "orders", FOUND, is_one=True).checkpoint)


def test_a_renewed_token_or_password_continues_the_same_job() -> None:
    first = checkpoint_of(type="rest", uri="https://catalog.example.org/", token="one")
    assert checkpoint_of(type="rest", uri="https://catalog.example.org/", token="two") == first
    one, two = (checkpoint_of(type="sql", uri=f"postgresql://kraft:{each}@db/catalog") for each in ("a", "b"))
    assert one == two


def test_another_catalog_has_another_checkpoint() -> None:
    places = {checkpoint_of(type="rest", uri=f"https://{each}.example.org", token="t") for each in ("one", "two")}
    assert len(places) == 2


def test_a_checkpoint_that_an_earlier_version_named_by_all_properties_is_continued() -> None:
    names = ("cluster", "orders", "prod.shop.orders", "token=one", "type=rest")
    earlier = Path(state_directory(None, "archive", names, names))
    earlier.mkdir(parents=True)
    assert checkpoint_of(type="rest", token="one") == str(earlier)
