"""What a power loss may leave, as a predicate, for the simulated disk and a real one alike.

A scenario is a seeded sequence of file calls. It runs over any file system; run over a simulated one it also tells,
at each moment, which trees may be found after a crash: names by some choice of the pending changes that the
journal's rule allows, and bytes that the file had at that place at its last sync or at any time after.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from kraft.world.ports import File, FileSystem
from kraft.world.simulated.files import SimulatedFileSystem
from kraft.world.simulated.inodes import Directory, Inode
from kraft.world.simulated.journal import Change

NAMES = ("a", "b", "c")
FOLDERS = ("", "/x", "/y")
Tree = dict[str, "bytes | Tree"]


def scenario(files: FileSystem, root: str, seed: int, steps: int) -> Iterator[None]:
    """One yield after every call that may change something."""
    chance = random.Random(f"scenario/{seed}")
    for folder in FOLDERS[1:]:
        files.make_directories(root + folder)
        yield
    for _ in range(steps):
        step(files, root, chance)
        yield


def step(files: FileSystem, root: str, chance: random.Random) -> None:
    path = root + chance.choice(FOLDERS) + "/" + chance.choice(NAMES)
    other = root + chance.choice(FOLDERS) + "/" + chance.choice(NAMES)
    kind = chance.choice(("write", "write", "write", "truncate", "sync", "sync", "rename", "remove", "sync_directory"))
    data = chance.randbytes(chance.choice((1, 100, 3000, 9000)))
    draw = chance.random()
    if kind == "sync_directory":
        files.sync_directory(root + chance.choice(FOLDERS))
    elif kind == "write":
        with_file(
            files, path, lambda file: file.append([data]) if draw < 0.7 else file.pwrite(data, int(draw * file.size()))
        )
    elif not files.exists(path):
        return
    elif kind == "truncate":
        with_file(files, path, lambda file: file.truncate(int(draw * file.size())))
    elif kind == "sync":
        with_file(files, path, lambda file: file.sync())
    elif kind == "rename":
        files.rename(path, other)
    else:
        files.remove(path)


def with_file(files: FileSystem, path: str, action: object) -> None:
    file: File = files.open(path, create=True)
    try:
        action(file)  # type: ignore[operator]  # Any callable over a file.
    finally:
        file.close()


def read_tree(files: FileSystem, path: str) -> Tree:
    tree: Tree = {}
    for name in files.list_directory(path):
        inner = f"{path}/{name}"
        if files.status(inner).is_directory:
            tree[name] = read_tree(files, inner)
        else:
            file = files.open(inner, writable=False)
            tree[name] = file.pread(1 << 24, 0)
            file.close()
    return tree


@dataclass
class Versions:
    """Contents that a file had since its last sync, the synced one first."""

    contents: list[bytes] = field(default_factory=list)

    def allow(self, survivor: bytes) -> bool:
        sizes = [len(content) for content in self.contents]
        if not min(sizes) <= len(survivor) <= max(sizes):
            return False
        for position, byte in enumerate(survivor):
            found = {content[position] for content in self.contents if position < len(content)}
            if len(self.contents[0]) <= position or min(sizes) <= position:
                found.add(0)  # A size may be durable before the bytes in it are.
            if byte not in found:
                return False
        return True


class Witness:
    """Follows a scenario on a simulated disk and knows what a crash now may leave."""

    def __init__(self, files: SimulatedFileSystem) -> None:
        self.files = files
        self.disk = files._disk
        # Its effect is among what the predicate allows; without it `durable` is what was synced.
        self.disk.write_back_rate = 0.0
        self.versions: dict[Inode, Versions] = {}

    def observe(self) -> None:
        """To be called after every step."""
        for inode in self._inodes(self.disk.root):
            known = self.versions.setdefault(inode, Versions([b""]))
            if not inode.dirty and not inode.sizes:
                known.contents = [bytes(inode.content)]
            elif known.contents[-1] != inode.content:
                known.contents.append(bytes(inode.content))

    def _inodes(self, directory: Directory) -> Iterator[Inode]:
        for _, entry in sorted(directory.names.items()):
            if isinstance(entry, Directory):
                yield from self._inodes(entry)
            else:
                yield entry

    def allows(self, survivors: Tree, root: str) -> bool:
        names = [part for part in root.split("/") if part]
        for choice in choices(self.disk.journal.pending):
            directory = apply(choice, self.disk.root)
            found = directory.get(id(self.disk.root), {})
            holder: Directory | Inode = self.disk.root
            for name in names:
                holder = found.get(name, Inode(0, 0))
                found = directory.get(id(holder), {})
            if self._matches(directory, holder, survivors):
                return True
        return False

    def _matches(
        self, names: dict[int, dict[str, Inode | Directory]], entry: Inode | Directory, survivor: bytes | Tree
    ) -> bool:
        if isinstance(entry, Inode):
            return isinstance(survivor, bytes) and self.versions.get(entry, Versions([b""])).allow(survivor)
        if isinstance(survivor, bytes):
            return False
        here = names.get(id(entry), dict(entry.durable))
        return here.keys() == survivor.keys() and all(
            self._matches(names, here[name], survivor[name]) for name in survivor
        )


def choices(pending: list[Change]) -> Iterator[list[Change]]:
    """Every set of changes that a crash may keep: after a lost one, later changes of its directories are lost too."""

    def extend(index: int, kept: list[Change], closed: list[Directory]) -> Iterator[list[Change]]:
        if index == len(pending):
            yield kept
            return
        change = pending[index]
        if not change.touches(closed):
            yield from extend(index + 1, [*kept, change], closed)
        yield from extend(index + 1, kept, [*closed, *(directory for directory, _, _ in change.edits)])

    return extend(0, [], [])


def apply(kept: list[Change], root: Directory) -> dict[int, dict[str, Inode | Directory]]:
    """Durable names of each touched directory with `kept` applied, by the directory's identity."""
    names: dict[int, dict[str, Inode | Directory]] = {id(root): dict(root.durable)}
    for change in kept:
        for directory, name, target in change.edits:
            here = names.setdefault(id(directory), dict(directory.durable))
            if target is None:
                here.pop(name, None)
            else:
                here[name] = target
    return names
