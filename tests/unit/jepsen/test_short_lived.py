"""Options of JVMs that live for seconds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jepsen.java import short_lived
from tests.capabilities import require_capability
from tests.conftest import make_sparks_short_lived


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_capability("java17")
    monkeypatch.setenv("KRAFT_CACHE", str(tmp_path))
    for name in ("kafka", "spark"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(short_lived, "jars_of", lambda program: tmp_path / program)


def test_an_existing_class_archive_is_used() -> None:
    kept = short_lived.archive("kafka")
    assert short_lived.options("kafka") == list(short_lived.COMPILE_ONCE)
    kept.parent.mkdir()
    kept.touch()
    assert f"-XX:SharedArchiveFile={kept}" in short_lived.options("kafka")
    assert short_lived.options("spark") == list(short_lived.COMPILE_ONCE)


def test_other_jars_have_another_class_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = short_lived.archive("kafka")
    (tmp_path / "others").mkdir()
    monkeypatch.setattr(short_lived, "jars_of", lambda _: tmp_path / "others")
    assert short_lived.archive("kafka") != before


def test_a_jvm_silently_ignores_an_unusable_class_archive() -> None:
    kept = short_lived.archive("kafka")
    kept.parent.mkdir()
    kept.write_bytes(b"no archive")
    done = subprocess.run(
        ["java", *short_lived.options("kafka"), "--version"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "archive" not in done.stdout


def test_child_spark_processes_get_the_short_lived_options_unless_the_environment_sets_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_capability("mvn")  # Without it no Spark is started.
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    monkeypatch.setenv("SPARK_LAUNCHER_OPTS", "")
    monkeypatch.delenv("SPARK_LAUNCHER_OPTS")
    make_sparks_short_lived()
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1"
    assert os.environ["SPARK_LAUNCHER_OPTS"] == " ".join(short_lived.COMPILE_ONCE)
