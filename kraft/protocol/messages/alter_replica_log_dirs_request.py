"""AlterReplicaLogDirsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class AlterReplicaLogDirTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName key
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class AlterReplicaLogDir(Struct):
    __slots__ = ("path", "topics", "unknown_tags")
    SCHEMA = """
    path: string 0+ key
    topics: []AlterReplicaLogDirTopic 0+
    """

    def __init__(
        self,
        *,
        path: str = "",
        topics: list[AlterReplicaLogDirTopic] | tuple[AlterReplicaLogDirTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.path = path
        self.topics: list[AlterReplicaLogDirTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags


class AlterReplicaLogDirsRequest(Message):
    __slots__ = ("dirs", "unknown_tags")
    API_KEY = 34
    VALID_VERSIONS = (1, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    dirs: []AlterReplicaLogDir 0+
    """

    def __init__(
        self,
        *,
        dirs: list[AlterReplicaLogDir] | tuple[AlterReplicaLogDir, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.dirs: list[AlterReplicaLogDir] = list(dirs) if isinstance(dirs, tuple) else dirs
        self.unknown_tags = unknown_tags
