"""A sandbox that leaves nothing behind: the whole run lives in namespaces that end with their first process.

The command starts itself again as process 1 of a new process namespace, with private mounts and network. However it is
killed, the kernel then cleans up. When process 1 ends, every process in the namespace is killed, and the last of them
releases the mounts. A mount releases its loop device, and network namespaces end with the mounts that name them. The
kernel does not know the run's scratch directory. A watchdog removes it: an outside process in its own session, which
waits for the end of a pipe that only the run holds open.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jepsen.throttle import remove_groups

SCRATCH = "KRAFT_JEPSEN_SCRATCH"
WATCHDOG = "KRAFT_JEPSEN_WATCHDOG"
ROOT = Path(__file__).resolve().parent.parent
PR_SET_PDEATHSIG = 1
PROCESSES_GONE_SECONDS_MAX = 30.0
COMMAND_SECONDS_MAX = 180.0


class Unsupported(Exception):
    """Raised when this machine cannot run the sandbox; the message names what is missing."""


def missing() -> str | None:
    """What this machine lacks to run real nodes in namespaces, or None."""
    if os.geteuid() != 0:
        return "root"
    for command, package in (
        ("unshare", "util-linux"),
        ("ip", "iproute2"),
        ("nft", "nftables"),
        ("mkfs.ext4", "e2fsprogs"),
        ("nsenter", "util-linux"),
    ):
        if shutil.which(command, path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin") is None:
            return f"{command} (package {package})"
    if (
        subprocess.run(
            ["unshare", "--pid", "--fork", "--mount", "--net", "true"], capture_output=True, check=False
        ).returncode
        != 0
    ):
        return "namespaces (unshare is refused)"
    return None


def inside() -> bool:
    """Whether this process is the first of its own namespaces."""
    return SCRATCH in os.environ and os.getpid() == 1


def scratch() -> Path:
    """The scratch directory, which the watchdog removes."""
    return Path(os.environ[SCRATCH])


def scratch_name() -> str:
    """A name that is unique on this machine, for what cannot be in the scratch directory; the watchdog removes that,
    too."""
    return scratch().name


def die_with_parent() -> None:
    """Have the kernel kill this child process when its parent ends; call it just after the fork."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def enter(arguments: Sequence[str]) -> int:
    """Run `python -m jepsen` with `arguments` in a sandbox. Returns its exit code. Raises Unsupported."""
    if (reason := missing()) is not None:
        raise Unsupported(reason)
    directory = tempfile.mkdtemp(prefix="kraft-jepsen-scratch-")
    alive, held = os.pipe()
    watching = [sys.executable, "-m", "jepsen.sandbox", str(alive), directory]
    watchdog = subprocess.Popen(watching, pass_fds=[alive], start_new_session=True, stdin=subprocess.DEVNULL)
    os.close(alive)
    os.set_inheritable(held, True)
    command = [
        "unshare",
        "--pid",
        "--fork",
        "--mount",
        "--net",
        "--mount-proc",
        "--kill-child=KILL",
        sys.executable,
        "-m",
        "jepsen",
        *arguments,
    ]
    child = subprocess.Popen(
        command, pass_fds=[held], env={**os.environ, SCRATCH: directory}, preexec_fn=die_with_parent
    )
    os.close(held)
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.wait(PROCESSES_GONE_SECONDS_MAX)
        return 130
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        watchdog.wait()


def reduced(body: Callable[[], int]) -> int:
    """Run `body` without a sandbox, with a scratch directory and a watchdog that also kills registered processes."""
    directory = tempfile.mkdtemp(prefix="kraft-jepsen-scratch-")
    alive, held = os.pipe()
    watching = [sys.executable, "-m", "jepsen.sandbox", str(alive), directory]
    watchdog = subprocess.Popen(watching, pass_fds=[alive], start_new_session=True, stdin=subprocess.DEVNULL)
    os.close(alive)
    os.environ[SCRATCH], os.environ[WATCHDOG] = directory, str(held)
    try:
        return body()
    finally:
        os.close(held)
        watchdog.wait()


def tell_watchdog(process: int) -> None:
    """Register a process that must not outlive the run, in the reduced form. In the sandbox the kernel ends it."""
    if WATCHDOG in os.environ:
        os.write(int(os.environ[WATCHDOG]), f"{process}\n".encode())


def prepare() -> None:
    """Set the sandbox up, first of all: private mounts, and private names of network namespaces."""
    os.environ["PATH"] += ":/sbin:/usr/sbin"
    run("mount", "--make-rprivate", "/")
    Path("/run/netns").mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
    run("ip", "link", "set", "lo", "up")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))


@contextmanager
def fresh_namespaces() -> Iterator[None]:
    """Give one run its network and mounts, and remove them after it."""
    try:
        yield
    finally:
        for name in sorted(entry.name for entry in Path("/run/netns").iterdir()):
            run("ip", "netns", "delete", name)
        # It goes with its peer; there is none if the run never got so far.
        subprocess.run(["ip", "link", "delete", "eth0"], capture_output=True, check=False)
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount_point in sorted((each for each in mounted if each.startswith(str(scratch()) + "/")), reverse=True):
            run("umount", "--lazy", mount_point)


def run(*command: str, stdin: str | None = None) -> str:
    """Run a system command and return its output. Raises RuntimeError with its error text."""
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS_MAX
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} exited {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
        )
    return done.stdout


def watch(alive: int, directory: str) -> None:
    """The watchdog: wait until the pipe has no writer, then kill the processes registered through it, and remove the
    scratch directory."""
    told = b""
    while data := os.read(alive, 4096):
        told += data
    for process in told.split():
        path = Path(f"/proc/{process.decode()}/environ")
        if path.exists() and directory.encode() in path.read_bytes():
            os.kill(int(process), signal.SIGKILL)
    deadline = time.monotonic() + PROCESSES_GONE_SECONDS_MAX
    while (Path(directory).exists() or not remove_groups(Path(directory).name)) and time.monotonic() < deadline:
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.05)


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
