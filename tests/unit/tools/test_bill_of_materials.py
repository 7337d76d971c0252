"""The bill of materials in a wheel."""

from __future__ import annotations

import json
import re
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from kraft._tools.bill_of_materials import UPLOT, bill_of_materials, mypyc_runtime

ROOT = Path(__file__).resolve().parents[3]
LICENSES = ROOT / "kraft/_tools/licenses"


def document_of(tmp_path: Path, seconds: int = 1_796_000_000) -> str:
    code = tmp_path / "fast.so"
    code.write_bytes(b"machine code")
    contents = {**{path: ROOT / "api" / path for path in UPLOT.files}, "kraft/fast.so": code}
    parts = [UPLOT, mypyc_runtime("2.4.1", ["kraft/fast.so"])]
    return bill_of_materials("kraft-node", "1.2.3", "Apache-2.0", parts, contents, seconds)


def test_the_document_is_valid_cyclonedx(tmp_path: Path) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document_of(tmp_path)) is None


def test_the_same_contents_and_time_give_the_same_document(tmp_path: Path) -> None:
    assert document_of(tmp_path) == document_of(tmp_path)
    assert json.loads(document_of(tmp_path, 1))["serialNumber"] != json.loads(document_of(tmp_path, 2))["serialNumber"]


def test_each_part_names_its_files_with_their_digests(tmp_path: Path) -> None:
    parts = {each["name"]: each for each in json.loads(document_of(tmp_path))["components"]}
    assert set(parts) == {"uPlot", "mypyc runtime (lib-rt)"}
    assert [each["name"] for each in parts["uPlot"]["components"]] == list(UPLOT.files)
    assert all(len(each["hashes"][0]["content"]) == 64 for part in parts.values() for each in part["components"])


def test_the_stated_version_of_uplot_is_that_of_its_files() -> None:
    for path in UPLOT.files:
        found = re.search(r"uPlot (\S+?)[,:]", (ROOT / "api" / path).read_text(encoding="utf-8"))
        assert found is not None
        assert found[1] == UPLOT.version, path


def test_every_shipped_file_with_a_foreign_copyright_is_in_the_bill() -> None:
    foreign = {
        path.relative_to(ROOT / "api").as_posix()
        for folder in ("kraft", "api")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in (".so", ".pyc") and LICENSES not in path.parents
        if re.search(rb"copyright \(c\)|copyright \d{4}", path.read_bytes(), re.IGNORECASE)
    }
    assert foreign == {"kraft_http/ui/uplot.js"}


def test_the_license_of_each_part_is_shipped() -> None:
    uplot, mypyc = ((LICENSES / f"{name}.txt").read_text(encoding="utf-8") for name in ("uplot", "mypyc"))
    assert "Copyright (c) 2022 Leon Sorokin" in uplot
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in mypyc
