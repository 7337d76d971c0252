"""What this machine offers to the tests: each capability, whether it was found, and what its absence disables.

`python -m kraft._tools.preflight` prints the table; with CI=true it exits 1 if anything is missing.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SECONDS_MAX = 30
DESCRIPTORS_MIN = 4096


@dataclass(frozen=True, slots=True)
class Finding:
    available: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Capability:
    find: Callable[[], Finding]
    disables: str


def output_of(*command: str) -> str | None:
    """What the command prints on either stream, or None if it is not there, fails, or takes too long."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


def find_java() -> Finding:
    printed = output_of("java", "-version")
    if printed is None:
        return Finding(False, "no java on the PATH")
    version = re.search(r'version "(\d+)', printed)
    major = int(version.group(1)) if version else 0
    return Finding(major >= 17, f"Java {major}" if major >= 17 else f"Java {major}, 17 is needed")


def find_maven() -> Finding:
    printed = output_of("mvn", "--version")
    first = re.sub(r"\x1b\[[0-9;]*m", "", printed).splitlines()[0] if printed else ""
    return Finding(bool(first), first or "no mvn on the PATH")


def find_root() -> Finding:
    return Finding(os.geteuid() == 0, f"effective user {os.geteuid()}")


def find_loop_mounts() -> Finding:
    if os.geteuid() != 0:
        return Finding(False, "needs root")
    for tool in ("mkfs.ext4", "mount", "umount", "losetup"):
        if shutil.which(tool) is None:
            return Finding(False, f"no {tool} on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        image, mount_point = Path(folder, "image"), Path(folder, "mounted")
        mount_point.mkdir()
        image.write_bytes(b"")
        os.truncate(image, 8 << 20)
        if output_of("mkfs.ext4", "-q", "-F", str(image)) is None:
            return Finding(False, "mkfs.ext4 fails")
        if output_of("mount", "-o", "loop", str(image), str(mount_point)) is None:
            return Finding(False, "a loop mount is refused")
        unmounted = output_of("umount", str(mount_point)) is not None
    return Finding(unmounted, "ext4 in a file" if unmounted else "umount fails")


def find_namespaces() -> Finding:
    works = output_of("unshare", "--net", "true") is not None and shutil.which("ip") is not None
    return Finding(works, "unshare --net, ip" if works else "no network namespaces (root, unshare and ip are needed)")


def find_nft() -> Finding:
    printed = output_of("nft", "list", "ruleset")
    return Finding(printed is not None, "nft" if printed is not None else "no nft on the PATH, or no right to use it")


def find_compiler() -> Finding:
    path = shutil.which("gcc") or shutil.which("cc")
    return Finding(path is not None, path or "no gcc or cc on the PATH")


def find_descriptors() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Finding(hard >= DESCRIPTORS_MIN, f"at most {hard} open files")


CAPABILITIES = {
    "java17": Capability(find_java, "Kafka's own tools and Spark are not run against a node"),
    "mvn": Capability(find_maven, "Kafka's tools and Spark's connector cannot be fetched"),
    "root": Capability(find_root, "no real power loss, no network namespaces"),
    "loop mounts": Capability(find_loop_mounts, "the simulated disk is not compared with ext4 after a real power loss"),
    "netns": Capability(find_namespaces, "real nodes are not cut off from each other by the kernel"),
    "cc": Capability(find_compiler, "no failing syncs of real files"),
    "descriptors": Capability(find_descriptors, "a node is not tried with a thousand connections"),
    "nft": Capability(find_nft, "no one-way and partial cuts between real nodes"),
}


@cache
def find(name: str) -> Finding:
    """Looked for once a process."""
    return CAPABILITIES[name].find()


def main() -> int:
    missing = 0
    for name, capability in CAPABILITIES.items():
        found = find(name)
        missing += not found.available
        consequence = "" if found.available else f" - without it: {capability.disables}"
        print(f"{'found  ' if found.available else 'MISSING'} {name:<12} {found.detail}{consequence}")
    return 1 if missing and os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main())
