"""Modules of typed Python that also run as machine code, if a C compiler was available when they were installed.

`compiled` returns the machine code of such a module if there is any, else the module itself. The file name of the
machine code has the hash of its source, and only that of the present source is loaded. So after an update or a patch
the source is interpreted until it is compiled again. `kraft._tools.compile_modules` compiles.
"""

from __future__ import annotations

import hashlib
import importlib.util
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from pathlib import Path
from types import ModuleType

DIGITS = 16


def compiled(module: ModuleType) -> ModuleType:
    """The machine code of `module` if there is any, else `module`."""
    try:
        source = Path(str(module.__file__))
        path = compiled_path(source, source.read_bytes())
        if not path.exists():
            return module
        loader = ExtensionFileLoader(module_name(path), str(path))
        spec = importlib.util.spec_from_file_location(loader.name, path, loader=loader)
        assert spec is not None, path
        native = importlib.util.module_from_spec(spec)
        loader.exec_module(native)
    except (OSError, ImportError):
        return module  # No source lies beside it, or this machine lacks what the other that compiled it had.
    return native


def compiled_path(source: Path, content: bytes) -> Path:
    """The path of the machine code for the file `source` with this content, for this Python and this kind of
    machine."""
    digest = hashlib.sha256(content).hexdigest()[:DIGITS]
    return source.with_name(f"_{source.stem}_{digest}{EXTENSION_SUFFIXES[0]}")


def module_name(path: Path) -> str:
    """The name that the machine code at `path` has as a module."""
    return path.name.removesuffix(EXTENSION_SUFFIXES[0])
