"""The software bill of materials of a wheel, in CycloneDX's JSON: what other projects' software is inside the wheel.

Wheels contain it in `.dist-info/sboms` (PEP 770). Dependencies are not inside: they are `Requires-Dist` of the
wheel's metadata. The same tree and time give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

SPEC_VERSION: Final = "1.6"
FILE_NAME: Final = "kraft-node.cdx.json"


@dataclass(frozen=True, slots=True)
class Part:
    """Software of another project inside a wheel. `files` are its paths in the wheel."""

    name: str
    version: str
    license: str
    purl: str
    description: str
    files: tuple[str, ...]


UPLOT: Final = Part(
    "uPlot",
    "1.6.32",
    "MIT",
    "pkg:npm/uplot@1.6.32",
    "Draws the charts of the console. The last line of the script differs from the published file.",
    ("kraft_http/ui/uplot.js", "kraft_http/ui/uplot.css"),
)


def mypyc_runtime(version: str, files: Sequence[str]) -> Part:
    """The C runtime that mypyc of this version links into the machine code at `files`."""
    return Part(
        "mypyc runtime (lib-rt)",
        version,
        "MIT AND PSF-2.0",
        f"pkg:pypi/mypy@{version}#mypyc/lib-rt",
        "Part of the machine code of compiled modules.",
        tuple(files),
    )


def bill_of_materials(
    name: str, version: str, terms: str, parts: Sequence[Part], contents: Mapping[str, Path], seconds: int
) -> str:
    """Return the document. `terms` are the licences of the whole as an SPDX expression. `contents` maps paths in the
    wheel to files of this machine, whose digests identify the parts. `seconds` is the time of the build since 1970."""
    purl = f"pkg:pypi/{name}@{version}"
    root: dict[str, Any] = {
        "type": "application",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{"expression": terms}],
        "purl": purl,
    }
    components = [_component(part, contents) for part in parts]
    document: dict[str, Any] = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "build"}],
            "component": root,
        },
        "components": components,
        "dependencies": [
            {"ref": purl, "dependsOn": [part.purl for part in parts]},
            *({"ref": part.purl} for part in parts),
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return json.dumps({**document, "serialNumber": f"urn:uuid:{serial}"}, indent=2, sort_keys=True) + "\n"


def _component(part: Part, contents: Mapping[str, Path]) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": part.purl,
        "name": part.name,
        "version": part.version,
        "description": part.description,
        "licenses": [{"expression": part.license}],
        "purl": part.purl,
        "components": [
            {
                "type": "file",
                "bom-ref": f"{part.purl}:{path}",
                "name": path,
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(contents[path].read_bytes()).hexdigest()}],
            }
            for path in part.files
        ],
    }
