"""Which code of a module runs: its machine code only where it was made from the very source that lies there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from kraft._tools import compile_modules
from kraft._tools.compile_modules import NotCompiled, compile_all, compile_module
from kraft.common.compiled import compiled, compiled_path
from tests.capabilities import require_capability

SOURCE = "def answer() -> int:\n    return 42\n"


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    path = tmp_path / "counted.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("counted", path)
    assert spec is not None
    return importlib.util.module_from_spec(spec)


def test_the_python_source_runs_where_there_is_no_machine_code(module: ModuleType) -> None:
    assert compiled(module) is module


def test_unloadable_machine_code_is_ignored(module: ModuleType) -> None:
    source = Path(str(module.__file__))
    compiled_path(source, source.read_bytes()).write_bytes(b"of another machine")
    assert compiled(module) is module


def test_a_module_without_a_source_is_not_changed(module: ModuleType) -> None:
    Path(str(module.__file__)).unlink()
    assert compiled(module) is module


def test_machine_code_runs_until_its_source_changes(module: ModuleType) -> None:
    require_capability("headers")
    source = Path(str(module.__file__))
    path = compile_module(source)
    native = compiled(module)
    assert native is not module
    assert native.answer() == 42
    assert native.__file__ == str(path)
    assert compile_module(source) == path  # It is not made again.
    source.write_text(SOURCE.replace("42", "43"))
    assert compiled(module) is module
    assert compile_module(source) != path
    assert not path.exists()


def test_uncompilable_source_is_reported_and_breaks_nothing(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Path(str(module.__file__))
    monkeypatch.setattr(compile_modules, "SOURCES", (source,))
    monkeypatch.setenv("KRAFT_COMPILE", "0")
    with pytest.raises(NotCompiled):
        compile_all()
    assert compile_modules.main() == 0
    assert "KRAFT_COMPILE=0" in capsys.readouterr().err
    monkeypatch.delenv("KRAFT_COMPILE")
    monkeypatch.setattr(compile_modules, "can_compile", lambda: True)
    source.write_text("def answer() -> int:\n    return 'no number'\n")
    with pytest.raises(NotCompiled):
        compile_all()
    assert list(source.parent.iterdir()) == [source]
