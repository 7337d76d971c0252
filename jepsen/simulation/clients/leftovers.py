"""What is left on a node's disk of topics that were deleted and made anew under one name."""

from __future__ import annotations

from collections.abc import Iterator

from kraft.common.ids import uuid_to_text
from kraft.storage.log_files import PARTITION_METADATA, STRAY_DIRECTORY_SUFFIX, is_marked_directory
from kraft.world.simulated.disk import Disk
from kraft.world.simulated.inodes import Directory, Inode


def leftovers(disk: Disk, directory: str, topic: str, living: bytes | None) -> Iterator[str]:
    """Directories of partitions of a `topic` that is not the `living` one. What was set aside as stray stays, for a
    person to look at; a log without an id may be the living one's."""
    data = disk.root.names[directory]
    assert isinstance(data, Directory)
    for name, entry in data.names.items():
        if not name.startswith(f"{topic}-") or is_marked_directory(name, STRAY_DIRECTORY_SUFFIX):
            continue
        assert isinstance(entry, Directory)
        metadata = entry.names.get(PARTITION_METADATA)
        ours = living is not None and (
            not isinstance(metadata, Inode) or uuid_to_text(living).encode() in metadata.content
        )
        if not ours or name != f"{topic}-0":
            yield name
