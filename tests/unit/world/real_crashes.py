"""Power cuts on a real ext4 beside the simulated disk: `unshare --mount python -m tests.unit.world.real_crashes
IMAGE DIRECTORY COUNT`.

A process of its own, in a mount namespace of its own: whoever makes a mount namespace copies the mounts of its own
one, and a copy of ours would keep a file system alive that is shut down. The next mount of the image would be that
one again. Prints how many crashes lost something.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kraft.world.real.files import RealFileSystem
from kraft.world.simulated import Universe
from tests.unit.world.survivors import Tree, Witness, read_tree, scenario

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
WITHOUT_FLUSH = 2  # EXT4_GOING_FLAGS_NOLOGFLUSH


@contextmanager
def mounted(image: Path, where: Path) -> Iterator[Path]:
    subprocess.run(["mount", "-o", "loop", str(image), str(where)], check=True, timeout=30)
    try:
        yield where
    finally:
        subprocess.run(["umount", str(where)], check=True, timeout=30)


def cut_power(where: Path) -> None:
    descriptor = os.open(where, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
    finally:
        os.close(descriptor)


def real_crash(image: Path, where: Path, seed: int) -> tuple[Tree, Tree, Witness]:
    """One scenario on ext4 and on the model at once, the power cut, and what ext4 had left."""
    real = RealFileSystem()
    world = Universe(seed).world_for(1)
    witness = Witness(world.files)
    with mounted(image, where):
        root = f"{where}/{seed}"
        real.make_directories(root)
        real.sync_directory(str(where))
        world.files.make_directories("/data")
        world.files.sync_directory("/")
        for _ in zip(scenario(real, root, seed, 20), scenario(world.files, "/data", seed, 20), strict=True):
            witness.observe()
        seen = read_tree(real, root)
        assert seen == read_tree(world.files, "/data"), "the simulated disk and ext4 differ even without a crash"
        cut_power(where)
    with mounted(image, where):
        survivors = read_tree(real, root)
        real.remove_tree(root)
        return survivors, seen, witness


def main(image: Path, where: Path, count: int) -> int:
    """How many of `count` crashes lost something. Raises AssertionError when ext4 left what the model forbids."""
    lost = 0
    for seed in range(count):
        survivors, seen, witness = real_crash(image, where, seed)
        assert witness.allows(survivors, "/data"), f"seed {seed}: ext4 left what the model forbids"
        lost += survivors != seen
    return lost


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
