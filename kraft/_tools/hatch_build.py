"""Hatch's hooks. Metadata get the repository's address (package_metadata.py). A wheel, or an editable install, gets
machine code if this machine can compile it (compile_modules.py), and is pure Python otherwise. A wheel also gets the
pages of docs/, for `kraft docs`, and its bill of materials (bill_of_materials.py)."""

from __future__ import annotations

import shutil
import sys
import tempfile
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.utils import get_reproducible_timestamp
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs"
sys.path.insert(0, str(ROOT))

from kraft._tools.bill_of_materials import FILE_NAME, UPLOT, bill_of_materials, mypyc_runtime  # noqa: E402  # In this tree.
from kraft._tools.compile_modules import NotCompiled, can_compile, compile_all, is_wanted  # noqa: E402
from kraft._tools.package_metadata import project_urls, with_absolute_links  # noqa: E402


class RepositoryMetadata(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        repository, version = str(self.config["repository"]), str(metadata["version"])
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        metadata["urls"] = project_urls(repository, version)
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(readme, repository, version),
        }


class CompiledModules(BuildHookInterface[Any]):
    scratch: Path | None = None

    def dependencies(self) -> list[str]:
        """The further build requirements; none without a C compiler."""
        return ["mypy>=1.13", "setuptools>=65"] if is_wanted() and can_compile() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        made: list[Path] = []
        try:
            made = compile_all()
        except NotCompiled as problem:
            self.app.display_warning(f"pure Python: {problem}")
        if version == "editable":  # A clone has the pages beside the package.
            return
        code = {str(path.relative_to(ROOT)): path for path in made}
        pages = {f"kraft/docs/{page.relative_to(PAGES)}": page for page in sorted(PAGES.rglob("*.md"))}
        build_data["force_include"].update({str(path): place for place, path in {**pages, **code}.items()})
        if code:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
        build_data["sbom_files"].append(str(self._bill_of_materials(code)))

    def _bill_of_materials(self, code: dict[str, Path]) -> Path:
        parts = [UPLOT, *([mypyc_runtime(version_of("mypy"), list(code))] if code else [])]
        core = self.metadata.core
        contents = {**{path: ROOT / "api" / path for path in UPLOT.files}, **code}
        text = bill_of_materials(
            core.raw_name, self.metadata.version, core.license_expression, parts, contents, get_reproducible_timestamp()
        )
        self.scratch = Path(tempfile.mkdtemp(prefix="kraft-build-"))
        file = self.scratch / FILE_NAME
        file.write_text(text, encoding="utf-8")
        return file

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)
