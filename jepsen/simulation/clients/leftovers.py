"""Data of deleted topics that is left on a node's disk after the topic was recreated under the same name."""

from __future__ import annotations

from collections.abc import Iterator

from kraft.common.ids import uuid_to_text
from kraft.storage.log_files import PARTITION_METADATA, STRAY_DIRECTORY_SUFFIX, is_marked_directory
from kraft.world.simulated.disk import Disk
from kraft.world.simulated.inodes import Directory, Inode


def leftovers(disk: Disk, directory: str, topic: str, living: bytes | None) -> Iterator[str]:
    """Yield partition directories of `topic` that do not belong to its `living` incarnation. Stray directories are
    skipped: an operator has to look at them. A log without a topic id may belong to the living one."""
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
