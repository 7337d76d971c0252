"""What this machine offers to the tests: each capability, whether it was found, what its absence disables, and what
to install.

`python -m tests.preflight` prints the table. As root, and with CI=true, it exits 1 if anything is missing, since
`make test` has installed what can be installed and no proof shall be left out unnoticed. KRAFT_ALLOW_SKIPS=1 lets
tests be skipped all the same, in a container without privileges for example.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

SECONDS_MAX = 30
DESCRIPTORS_MIN = 4096


@dataclass(frozen=True, slots=True)
class Finding:
    available: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Capability:
    """`packages` are Debian's, separated by spaces; empty where no package brings it."""

    find: Callable[[], Finding]
    disables: str
    packages: str = ""

    @property
    def remedy(self) -> str:
        """What to type, or the empty string."""
        return f"sudo apt-get install {self.packages}" if self.packages else ""


def is_required() -> bool:
    """Whether a missing capability is a failure, rather than a reason to skip the tests that need it."""
    if os.environ.get("CI") == "true":
        return True
    return os.geteuid() == 0 and os.environ.get("KRAFT_ALLOW_SKIPS") != "1"


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


def find_program(name: str) -> Finding:
    path = shutil.which(name)
    return Finding(path is not None, path or f"no {name} on the PATH")


def find_debugger() -> Finding:
    """gdb, and the right to look into another process of ours that is no child of it."""
    if shutil.which("gdb") is None:
        return Finding(False, "no gdb on the PATH")
    with subprocess.Popen(["sleep", str(SECONDS_MAX)]) as sleeper:
        try:
            printed = output_of("gdb", "-p", str(sleeper.pid), "-batch", "-ex", "bt") or ""
        finally:
            sleeper.kill()
    works = re.search(r"^#0 ", printed, re.MULTILINE) is not None
    return Finding(works, "gdb" if works else "gdb may not look into other processes")


def find_xfs() -> Finding:
    path = shutil.which("mkfs.xfs", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    return Finding(path is not None, path or "no mkfs.xfs on the PATH")


def find_descriptors() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Finding(hard >= DESCRIPTORS_MIN, f"at most {hard} open files")


def find_headers() -> Finding:
    path = Path(sysconfig.get_path("include"), "Python.h")
    return Finding(path.exists() and find_compiler().available, str(path))


CAPABILITIES = {
    "java17": Capability(
        find_java, "Kafka's own tools and Spark are not run against a node", "openjdk-17-jdk-headless"
    ),
    "mvn": Capability(find_maven, "Kafka's tools and Spark's connector cannot be fetched", "maven"),
    "kcat": Capability(partial(find_program, "kcat"), "kcat is not run against a node", "kcat"),
    "chromium": Capability(partial(find_program, "chromium"), "no page of the console is looked at", "chromium"),
    "prometheus": Capability(
        partial(find_program, "prometheus"), "no alert and no dashboard is tried in Prometheus", "prometheus"
    ),
    "systemd-analyze": Capability(
        partial(find_program, "systemd-analyze"), "the unit of systemd is not judged", "systemd"
    ),
    "root": Capability(find_root, "no real power loss, no network namespaces"),
    "loop mounts": Capability(
        find_loop_mounts,
        "the simulated disk is not compared with ext4 after a real power loss",
        "e2fsprogs mount",
    ),
    "xfs": Capability(find_xfs, "real nodes are not torn apart on XFS", "xfsprogs"),
    "netns": Capability(
        find_namespaces, "real nodes are not cut off from each other by the kernel", "iproute2 util-linux"
    ),
    "cc": Capability(find_compiler, "no failing syncs of real files", "gcc libc6-dev"),
    "headers": Capability(find_headers, "no module is tried as machine code", "gcc libc6-dev python3-dev"),
    "openssl": Capability(partial(find_program, "openssl"), "docs/security.md is not followed literally", "openssl"),
    "git": Capability(
        partial(find_program, "git"), "no defect is planted in copies of the tree, no earlier commit is run", "git"
    ),
    "patch": Capability(partial(find_program, "patch"), "no defect is planted for real processes", "patch"),
    "gdb": Capability(find_debugger, "no native stack of a test that hangs is shown", "gdb"),
    "curl": Capability(partial(find_program, "curl"), "README and docs/operations are not followed literally", "curl"),
    "descriptors": Capability(find_descriptors, "a node is not tried with a thousand connections"),
    "nft": Capability(find_nft, "no one-way and partial cuts between real nodes", "nftables"),
}


@cache
def find(name: str) -> Finding:
    """Looked for once a process."""
    return CAPABILITIES[name].find()


def main() -> int:
    missing = [name for name in CAPABILITIES if not find(name).available]
    for name, capability in CAPABILITIES.items():
        consequence = f" - without it: {capability.disables}" if name in missing else ""
        print(f"{'MISSING' if name in missing else 'found  '} {name:<12} {find(name).detail}{consequence}")
    packages = " ".join(CAPABILITIES[name].packages for name in missing if CAPABILITIES[name].packages)
    if packages:
        print(f"to have what is missing: sudo apt-get install {packages}")
    if not missing or not is_required():
        return 0
    print("Nothing may be missing here (root, or CI=true). KRAFT_ALLOW_SKIPS=1 skips the tests that need it, by name.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
