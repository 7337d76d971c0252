"""The files that the repository's host reads: the workflow of releases, forms and policies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
HOST = ROOT / ".github"


def workflow() -> dict[Any, Any]:
    loaded = yaml.safe_load((HOST / "workflows/release.yml").read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_a_release_starts_by_hand_only() -> None:
    assert set(workflow()[True]) == {"workflow_dispatch"}  # YAML 1.1 reads the key "on" as true.
    publish = workflow()["jobs"]["publish"]
    assert publish["environment"] == "release"
    assert "inputs.publish" in publish["if"]
    assert "refs/tags/v" in publish["if"]


def test_only_the_job_that_publishes_may_sign_and_write() -> None:
    jobs = workflow()["jobs"]
    assert workflow()["permissions"] == {"contents": "read"}
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
    assert jobs["publish"]["permissions"] == {"contents": "write", "id-token": "write", "attestations": "write"}
    assert "secrets." not in (HOST / "workflows/release.yml").read_text(encoding="utf-8")


def test_published_files_are_built_and_checked_by_the_release_target() -> None:
    jobs = workflow()["jobs"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        target for step in jobs["build"]["steps"] for target in re.findall(r"make ([a-z-]+) ", step.get("run", ""))
    }
    assert named == {"release"}
    assert named <= targets
    assert jobs["publish"]["needs"] == "build"


@pytest.mark.parametrize("page", ["docs/versions.md", "docs/RELEASING.md"])
def test_every_file_named_by_the_pages_of_releases_exists(page: str) -> None:
    named = set(re.findall(r"`((?:kraft|tests)/[\w./]+)`", (ROOT / page).read_text(encoding="utf-8")))
    assert len(named) >= 2
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("name", ["defect.yml", "request.yml"])
def test_each_field_of_an_issue_form_has_a_label_and_an_id(name: str) -> None:
    form = yaml.safe_load((HOST / "ISSUE_TEMPLATE" / name).read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len(fields) >= 2
    assert all(field["id"] and field["attributes"]["label"] for field in fields)
