"""What `pip install` gives: the wheel's packages, and a node with its HTTP admin that starts inside somebody's own
project, whatever that project calls its packages."""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

from kraft.common.version import VERSION
from tests.capabilities import require_capability

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 120
ANY_PORT = ("--listen", "127.0.0.1:0", "--controller-listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel's files."""
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheels"))) as archive:
        archive.extractall(target)
    return target


def build_wheel(where: Path, **settings: str) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(where), "."]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=True, timeout=SECONDS_MAX)
    (wheel,) = where.glob("*.whl")
    return wheel


def version_of(installed: Path) -> str:
    """What `kraft --version` prints."""
    command = [sys.executable, "-c", "from kraft.cli.admin.app import main; main()", "--version"]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    told = subprocess.run(command, cwd=installed, env=environment, capture_output=True, text=True, check=True)
    return told.stdout.strip()


def test_the_wheel_contains_only_our_packages_with_their_types_and_pages(installed: Path) -> None:
    packages = sorted(path.name for path in installed.iterdir() if not path.name.endswith(".dist-info"))
    assert packages == ["kraft", "kraft_http", "pyspark_kraft"]
    for expected in (
        "kraft/py.typed",
        "kraft_http/py.typed",
        "kraft_http/ui/console.html",
        "kraft_http/ui/console.js",
        "kraft_http/ui/docs.html",
    ):
        assert (installed / expected).is_file(), expected


def test_a_type_checker_uses_the_types_of_an_installed_wheel(tmp_path: Path) -> None:
    build_wheel(tmp_path, KRAFT_COMPILE="0")
    venv.create(tmp_path / "venv")
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        archive.extractall(packages)
    # Dependencies come from this environment. A .pth file that another one names is not read: kraft is the wheel's.
    (packages / "dependencies.pth").write_text(f"{site.getsitepackages()[0]}\n")
    program = shutil.copy(ROOT / "tests/release/user_program.py", tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}/cache", f"--config-file={os.devnull}"]
    command += [f"--python-executable={tmp_path}/venv/bin/python", program]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MYPY"))}
    told = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout
    (packages / "kraft/py.typed").unlink()
    told = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "missing library stubs or py.typed marker" in told.stdout


def test_every_console_script_and_plugin_of_the_wheel_can_be_imported(installed: Path) -> None:
    (file,) = installed.glob("*.dist-info/entry_points.txt")
    entries = configparser.ConfigParser(delimiters="=")
    entries.read_string(file.read_text())
    named = {name: target for section in entries.sections() for name, target in entries.items(section)}
    assert set(named) == {"kraft-node", "kraft"}
    code = "import pkgutil, sys; [pkgutil.resolve_name(name) for name in sys.argv[1:]]"
    targets = [target for section in entries.sections() for _, target in entries.items(section)]
    assert len(targets) == 3
    subprocess.run(
        [sys.executable, "-c", code, *targets],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        check=True,
    )


def test_the_wheel_carries_licences_and_a_bill_of_materials(installed: Path) -> None:
    (info,) = installed.glob("*.dist-info")
    licenses = {path.relative_to(info / "licenses").as_posix() for path in (info / "licenses").rglob("*.*")}
    assert {"kraft/_tools/licenses/uplot.txt", "kraft/_tools/licenses/mypyc.txt"} == licenses
    assert (info / "licenses/LICENSE").is_file()
    document = json.loads((info / "sboms/kraft-node.cdx.json").read_text())
    assert document["metadata"]["component"]["version"] == VERSION
    for part in document["components"]:
        for file in part["components"]:
            assert hashlib.sha256((installed / file["name"]).read_bytes()).hexdigest() == file["hashes"][0]["content"]
    named = {file["name"] for part in document["components"] for file in part["components"]}
    assert {path.relative_to(installed).as_posix() for path in installed.rglob("*.so")} <= named


def test_an_installed_command_prints_every_page_of_the_documentation(installed: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def run(*arguments: str) -> str:
        code = "import sys; from kraft.cli.admin.app import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "docs", *arguments]
        return subprocess.run(
            command, cwd=installed, env=environment, capture_output=True, text=True, check=True
        ).stdout

    pages = json.loads(run("-o", "json"))["pages"]
    assert {Path(each["path"]).relative_to(installed / "kraft/docs") for each in pages} == {
        page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")
    }
    assert run("full-disk") == (ROOT / "docs/operations/full-disk.md").read_text()


def test_a_wheel_runs_machine_code_until_its_source_changes(installed: Path) -> None:
    require_capability("headers")
    assert version_of(installed) == f"kraft {VERSION}, records read by machine code"
    source = installed / "kraft/protocol/records/fast_path.py"
    text = source.read_text()
    source.write_text(f"{text}\n# patched\n")
    assert version_of(installed) == f"kraft {VERSION}, records read by interpreter"
    source.write_text(text)


def test_a_pure_wheel_is_for_every_platform(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, KRAFT_COMPILE="0")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert [name for name in archive.namelist() if name.endswith(".so")] == []


def test_a_node_starts_in_a_project_with_packages_named_api_and_models(installed: Path, tmp_path: Path) -> None:
    for package in ("api", "models", "routers", "ui", "tests"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('the project of somebody else')\n")
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    where = [sys.executable, "-c", "import kraft, kraft_http; print(kraft.__file__, kraft_http.__file__)"]
    told = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert all(path.startswith(str(installed)) for path in told.stdout.split())
    command = [sys.executable, "-m", "kraft.cli.node", "--data-dir", str(tmp_path / "data"), *ANY_PORT]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            ready = re.search(r"admin=(http\S+)", node.stdout.readline())
            assert ready is not None
            with urllib.request.urlopen(f"{ready[1]}/v3/clusters", timeout=SECONDS_MAX) as answer:
                assert answer.status == 200
        finally:
            node.send_signal(signal.SIGTERM)
        assert node.wait(SECONDS_MAX) == 0
