"""A place that leaves nothing behind: the whole run lives in namespaces that die with their first process.

The command starts itself again as process 1 of a new process namespace, with private mounts and network. The kernel
then cleans up, whoever is killed and however: when process 1 ends every process in the namespace is killed, the last
of them takes the mounts along, a mount takes its loop device along, and network namespaces go with the mounts that
name them. What the kernel does not know of, the run's scratch directory, is removed by a watchdog: a process
outside, in a session of its own, that waits for the end of a pipe which only the run holds open.
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
    """This machine cannot do it; the message names what is missing."""


def missing() -> str | None:
    """What keeps this machine from running real nodes in namespaces, or None."""
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
    """A directory that the watchdog removes."""
    return Path(os.environ[SCRATCH])


def scratch_name() -> str:
    """Unique on this machine; what cannot lie in the scratch directory bears it, and the watchdog removes that, too."""
    return scratch().name


def die_with_parent() -> None:
    """For a child just forked: SIGKILL when its parent dies."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def enter(arguments: Sequence[str]) -> int:
    """Run `python -m jepsen` with `arguments` in a sandbox, to its end; returns its exit code. Raises Unsupported."""
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
    """Run `body` outside of any sandbox, with a scratch directory and a watchdog that also ends the processes it was
    told of."""
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
    """In the reduced form: this process must not outlive us. In the sandbox the kernel sees to that."""
    if WATCHDOG in os.environ:
        os.write(int(os.environ[WATCHDOG]), f"{process}\n".encode())


def prepare() -> None:
    """The first thing inside: mounts that nobody else sees, and names of network namespaces that are ours alone."""
    os.environ["PATH"] += ":/sbin:/usr/sbin"
    run("mount", "--make-rprivate", "/")
    Path("/run/netns").mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
    run("ip", "link", "set", "lo", "up")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))


@contextmanager
def fresh_namespaces() -> Iterator[None]:
    """One run's network and mounts; the next run in the same sandbox finds none of them."""
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
    """Run a command of the system to its end; returns what it printed. Raises RuntimeError with its complaint."""
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS_MAX
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} exited {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
        )
    return done.stdout


def watch(alive: int, directory: str) -> None:
    """The watchdog: wait until nobody holds the pipe, then end the processes it was told of through it, and remove
    the scratch directory."""
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
