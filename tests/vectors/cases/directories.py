"""AlterReplicaLogDirs as far as both systems may be asked alike: directories have other names on every machine, so
only such as nobody has are named."""

from tests.vectors.case import Ask, case, create

NOWHERE = "/no/such/log/directory"


def move(*partitions: int, path: str = NOWHERE) -> Ask:
    """Ask for partitions of the case's topic to be put into a directory."""
    return Ask({"dirs": [{"path": path, "topics": [{"name": "$topic", "partitions": list(partitions)}]}]})


CASES = (
    case("move-to-nowhere", "AlterReplicaLogDirs", create(), move(0)),
    case("move-to-relative-path", "AlterReplicaLogDirs", create(), move(0, path="data")),
    case("move-to-empty-path", "AlterReplicaLogDirs", create(), move(0, path="")),
    case("move-unknown-topic-to-nowhere", "AlterReplicaLogDirs", move(0)),
    case("move-unknown-partition-to-nowhere", "AlterReplicaLogDirs", create(), move(0, 7)),
    case("move-nothing", "AlterReplicaLogDirs", Ask({"dirs": []})),
    case("move-no-partitions", "AlterReplicaLogDirs", create(), move()),
)
