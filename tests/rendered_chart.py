"""What Helm makes of config/deployment/chart. `python -m tests.rendered_chart` (make chart) needs Helm and writes the
files anew; each names the digest of the chart that it was made of.

Helm is not among the packages that tests install, so tests read these files and compare the digest.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "config/deployment/chart"
PLAIN: Final = ROOT / "config/deployment/kubernetes.yml"
TLS: Final = ROOT / "tests/integration/kubernetes-tls.yml"
FILES: Final = (PLAIN, TLS)
VALUES: Final = {PLAIN: (), TLS: ("tls.enabled=true", r"config.log\.retention\.hours=24")}
HEAD: Final = {
    PLAIN: "# Three nodes for Kubernetes: kubectl apply -f config/deployment/kubernetes.yml\n"
    "# For TLS, other sizes and upgrades step by step use the chart beside it, which `make chart` made it of.\n",
    TLS: "# Made by `make chart`.\n",
}
REFUSED: Final = {"nodes=2": "even number", "antiAffinity=none": "required or preferred"}


def digest() -> str:
    """The digest of all files of the chart."""
    found = hashlib.sha256()
    for path in sorted(CHART.rglob("*")):
        if path.is_file():
            found.update(f"{path.relative_to(CHART)}\n{path.read_text()}".encode())
    return f"# chart {found.hexdigest()}\n"


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["helm", *words], capture_output=True, text=True, check=False)


def render() -> None:
    """Check the chart and write the files. Raises SystemExit with Helm's words."""
    linted = helm("lint", "--strict", "--quiet", str(CHART))
    if linted.returncode:
        raise SystemExit(linted.stdout + linted.stderr)
    for file, values in VALUES.items():
        made = helm("template", "kraft", str(CHART), *(word for value in values for word in ("--set", value)))
        if made.returncode:
            raise SystemExit(made.stderr)
        file.write_text(HEAD[file] + digest() + made.stdout)
    for value, reason in REFUSED.items():
        if reason not in helm("template", "kraft", str(CHART), "--set", value).stderr:
            raise SystemExit(f"the chart accepts {value}")


if __name__ == "__main__":
    render()
