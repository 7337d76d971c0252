"""The disk of one node: ext4 (or XFS) in a file on a loop device, so that its power can fail.

Power loss is the shutdown ioctl of the file system with "do not flush": from then on nothing reaches the disk.
Unmounted and mounted again, it has what was synced, and other data only if the journal happens to have it. Metadata is
committed to the journal only every five minutes (`commit=300`), so that a missing sync shows. The file is on a tmpfs of
its own, whose size limits the disk. If that is shrunk to what it holds, the kernel's writes to the loop device fail. So
a sync fails once with EIO, and then succeeds without having written (`break_writes`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from pathlib import Path

from jepsen.kernel_log import KernelLog
from jepsen.sandbox import run

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN
WITHOUT_FLUSH = 2  # EXT4_GOING_FLAGS_NOLOGFLUSH, XFS_FSOP_GOING_FLAGS_NOLOGFLUSH
SIZE_MB = 512
UNMOUNT_SECONDS_MAX = 20.0
FILLER = ".jepsen-filler"
PAGE_KB = 4


class Disk:
    """The disk of one node. `mount_point` is the directory for the node's data."""

    def __init__(self, directory: Path, kind: str = "ext4", size_mb: int = SIZE_MB) -> None:
        self.kind = kind
        self.size_mb = size_mb
        self.backing = directory / "backing"
        self.image = self.backing / "image"
        self.mount_point = directory / "disk"
        self._told: KernelLog | None = None
        self._refused = False
        self._request_kb = ""
        for each in (self.backing, self.mount_point):
            each.mkdir(parents=True, exist_ok=True)
        self._make()

    def _make(self) -> None:
        run("mount", "-t", "tmpfs", "-o", f"size={self.size_mb + 64}m", "tmpfs", str(self.backing))
        self.image.touch()
        os.truncate(self.image, self.size_mb << 20)
        run(*(("mkfs.ext4", "-q", "-F") if self.kind == "ext4" else ("mkfs.xfs", "-q")), str(self.image))
        self.mount()

    def mount(self) -> None:
        run(
            "mount",
            "-t",
            self.kind,
            "-o",
            "loop,commit=300" if self.kind == "ext4" else "loop",
            str(self.image),
            str(self.mount_point),
        )

    def unmount(self) -> None:
        """Unmount the disk, whose processes have ended or are about to: retries for a while."""
        deadline = time.monotonic() + UNMOUNT_SECONDS_MAX
        while True:
            try:
                run("umount", str(self.mount_point))
                return
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def lose_power(self) -> None:
        """Stop all writes. Afterwards the node must be killed, and the disk mounted again."""
        descriptor = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
        finally:
            os.close(descriptor)

    def remount(self) -> None:
        self.unmount()
        self.mount()

    def discard(self) -> None:
        """Destroy the disk and all its data."""
        self.unmount()
        run("umount", str(self.backing))

    def renew(self) -> None:
        """Replace the disk by an empty one."""
        self.discard()
        self._make()

    def fill(self) -> None:
        """Fill the disk until no block is free."""
        descriptor = os.open(self.mount_point / FILLER, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            for size in (1 << 20, 4096):
                self._fill_with(descriptor, bytes(size))
        finally:
            os.close(descriptor)

    @staticmethod
    def _fill_with(descriptor: int, chunk: bytes) -> None:
        while True:
            try:
                if os.write(descriptor, chunk) < len(chunk):
                    return
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return

    def free_bytes(self) -> int:
        found = os.statvfs(self.mount_point)
        return found.f_bavail * found.f_frsize

    def empty(self) -> None:
        (self.mount_point / FILLER).unlink(missing_ok=True)

    def break_writes(self) -> None:
        """Make the kernel's writes to new parts of the device fail: syncs see EIO or ENOSPC once. Raises OSError if the
        kernel log cannot be read.

        Requests are limited to one page meanwhile: of a larger one the loop device writes what fits, and reports the
        whole as written.
        """
        self._told, self._refused = KernelLog(), False
        self._request_kb = self._request_limit().read_text()
        self._request_limit().write_text(str(PAGE_KB))
        # More may be held by the time the size is set, and then it is refused.
        for slack in (16 << 10, 256 << 10, 1 << 20):
            used = os.statvfs(self.backing)
            held = (used.f_blocks - used.f_bfree) * used.f_frsize
            try:
                run("mount", "-o", f"remount,size={held + slack}", str(self.backing))
            except RuntimeError:
                continue
            return
        self.mend_writes()
        raise RuntimeError(f"{self.backing} cannot be made small")

    def mend_writes(self) -> None:
        run("mount", "-o", f"remount,size={self.size_mb + 64}m", str(self.backing))
        if self._told is not None:
            self.has_refused()
            self._told.close()
            self._told = None
            self._request_limit().write_text(self._request_kb)

    def _request_limit(self) -> Path:
        """The file with the size limit of a request to the device, in KB. The device keeps it over mounts."""
        return Path("/sys/block", self.device(), "queue", "max_sectors_kb")

    def device(self) -> str:
        """The name of the loop device, without a path."""
        return Path(run("findmnt", "-n", "-o", "SOURCE", str(self.mount_point)).strip()).name

    def device_number(self) -> str:
        """The major and minor number of the device, as control groups name it."""
        return Path("/sys/block", self.device(), "dev").read_text().strip()

    def has_refused(self) -> bool:
        """Whether the device has refused a write since `break_writes`: the kernel says so ("critical space
        allocation error, dev loop0, ...")."""
        if self._told is not None:
            refused = f" error, dev {self.device()},"
            self._refused = self._refused or any(refused in line for line in self._told.new_lines())
        return self._refused
