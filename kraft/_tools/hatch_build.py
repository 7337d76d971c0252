"""Hatch's hook: a wheel, or an editable install, gets machine code where this machine can make it (see
compile_modules.py), and is pure Python where it cannot. A wheel gets the pages of docs/ as well, for `kraft docs`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs"
sys.path.insert(0, str(ROOT))

from kraft._tools.compile_modules import NotCompiled, can_compile, compile_all, is_wanted  # noqa: E402  # It lies in this tree.


class CompiledModules(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """The further build requirements; none without a C compiler."""
        return ["mypy>=1.13", "setuptools>=65"] if is_wanted() and can_compile() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":  # A clone has the pages beside the package.
            pages = {str(page): f"kraft/docs/{page.relative_to(PAGES)}" for page in sorted(PAGES.rglob("*.md"))}
            build_data["force_include"].update(pages)
        try:
            made = compile_all()
        except NotCompiled as problem:
            self.app.display_warning(f"pure Python: {problem}")
            return
        if version != "editable":
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"].update({str(path): str(path.relative_to(ROOT)) for path in made})
