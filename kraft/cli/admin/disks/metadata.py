"""`kraft metadata`: the cluster's metadata from a node's disk, as Kafka's `kafka-metadata-shell` shows it, without a
JVM. The node may be running."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from kraft.cli.admin.disks.file_dump import Damaged, batches_of, plain
from kraft.cli.admin.options import Output
from kraft.cli.admin.output import Table, show
from kraft.cli.admin.running import NotFound, exit_on_failure
from kraft.common.config.resource_type import ResourceType
from kraft.common.config.resources import is_secret
from kraft.common.errors import KraftError
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.protocol.schema import Message
from kraft.raft.snapshot.snapshot_path import parse_name
from kraft.security.acls import KIND_NAMES, OPERATION_NAMES, PATTERN_NAMES, PERMISSION_NAMES
from kraft.security.scram_credentials import BY_NUMBER

app = typer.Typer(add_completion=False)

LOG_FOLDER: Final = "__cluster_metadata-0"
KINDS: Final = {
    ResourceType.TOPIC: "topics",
    ResourceType.BROKER: "brokers",
    ResourceType.GROUP: "groups",
    ResourceType.CLIENT_METRICS: "client-metrics",
}
Tree = dict[str, Any]


@app.command(epilog="Example: kraft metadata /var/kraft topics/flights/0; with -o json a whole branch")
def metadata(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Metadata log directory of a node.", show_default=False)
    ],
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="Branch of the image, such as topics/flights/0. (default: the whole image)"
        ),
    ] = "",
    until: Annotated[
        int | None, typer.Option("--until", metavar="OFFSET", min=0, help="The image before this offset.")
    ] = None,
    output: Output = None,
) -> None:
    """Show the content of a node's metadata log: brokers, topics, configs, users, as a tree.

    The log is read to its end; its last records may not be committed. Keys of passwords and secret values are not
    shown.
    """
    with exit_on_failure():
        tree, end = read_tree(directory, until)
        branch = find(tree, path)
    rows = [(name, _brief(value)) for name, value in branch.items()] if isinstance(branch, dict) else [(path, branch)]
    show({"end_offset": end, "path": path.strip("/"), "metadata": branch}, [Table(("NAME", "VALUE"), rows)], output)


def _brief(value: Any) -> object:
    """The text of a node of the tree: its value, or the number of its entries."""
    if not isinstance(value, dict):
        return value
    if below := sum(isinstance(each, dict) for each in value.values()):
        return f"{below} entr{'ies' if below != 1 else 'y'}"
    return " ".join(f"{name}={each}" for name, each in value.items() if each not in (None, [], ""))


def find(tree: Tree, path: str) -> Any:
    """The branch at `path`. Raises NotFound with the names that exist."""
    branch: Any = tree
    passed: list[str] = []
    for name in filter(None, path.split("/")):
        if not isinstance(branch, dict) or name not in branch:
            known = sorted(branch, key=str)[:20] if isinstance(branch, dict) else []
            raise NotFound(f"{'/'.join(passed) or 'the metadata'}: there is no {name}; there are {', '.join(known)}")
        branch = branch[name]
        passed.append(name)
    return branch


def read_tree(directory: str, until: int | None) -> tuple[Tree, int]:
    """The tree, and the offset up to which it is read. Raises OSError, KraftError."""
    folder = os.path.join(directory, LOG_FOLDER)
    folder = folder if os.path.isdir(folder) else directory
    image, end = MetadataImage(), 0
    snapshots = sorted(found for name in os.listdir(folder) if (found := parse_name(name)) is not None)
    if until is not None:
        snapshots = [snapshot for snapshot in snapshots if snapshot.offset <= until]
    if snapshots:
        newest = snapshots[-1]
        path = os.path.join(folder, f"{newest.offset:020d}-{newest.epoch:010d}.checkpoint")
        for records, _ in _decoded(path):
            image = image.replay_batch(records)[0]
        end = newest.offset
    for name in sorted(name for name in os.listdir(folder) if name.endswith(".log")):
        try:
            for records, last_offset in _decoded(os.path.join(folder, name)):
                if last_offset < end:
                    continue
                if until is not None and last_offset >= until:
                    return tree_of(image), end
                image, end = image.replay_batch(records)[0], last_offset + 1
        except Damaged as damage:
            if end and damage.position:  # What is being appended just now looks so.
                break
            raise
    if image.is_empty:
        raise KraftError(f"{folder} holds no metadata" + ("" if until is None else f" before offset {until}"))
    return tree_of(image), end


def _decoded(path: str) -> Iterator[tuple[list[Message], int]]:
    """The records of each batch that holds metadata, and its last offset."""
    serde = MetadataRecordSerde()
    for batch, _ in batches_of(path):
        if not batch.is_control:
            yield [serde.decode(bytes(record.value or b"")) for record in batch.iterate_records()], batch.last_offset


def tree_of(image: MetadataImage) -> Tree:
    """The image as a tree of names, from its own records."""
    tree: Tree = {name: {} for name in ("features", "brokers", "controllers", "topics", "configs", "quotas", "acls")}
    tree |= {"users": {}, "tokens": {}, "producer_ids": {}}
    names: dict[str, str] = {}
    for record in image.write():
        kind, fields = type(record).__name__, plain(record)
        if kind == "FeatureLevelRecord":
            tree["features"][fields["name"]] = fields["feature_level"]
        elif kind == "RegisterBrokerRecord":
            tree["brokers"][str(fields.pop("broker_id"))] = fields
        elif kind == "RegisterControllerRecord":
            tree["controllers"][str(fields.pop("controller_id"))] = fields
        elif kind == "TopicRecord":
            names[fields["topic_id"]] = fields["name"]
            tree["topics"][fields["name"]] = {"id": fields["topic_id"]}
        elif kind == "PartitionRecord":
            topic = tree["topics"][names[fields.pop("topic_id")]]
            topic[str(fields.pop("partition_id"))] = fields
        elif kind == "ConfigRecord":
            _put_config(tree["configs"], fields)
        else:
            _put_other(tree, kind, fields)
    return tree


def _put_config(configs: Tree, fields: Tree) -> None:
    kind = fields["resource_type"]
    name = fields["resource_name"] or "(default)"
    hides = kind == ResourceType.BROKER and is_secret(fields["name"])
    place = configs.setdefault(KINDS.get(kind, str(kind)), {}).setdefault(name, {})
    place[fields["name"]] = "(hidden)" if hides else fields["value"]


def _put_other(tree: Tree, kind: str, fields: Tree) -> None:
    if kind == "UserScramCredentialRecord":
        mechanism = BY_NUMBER[fields["mechanism"]].name
        tree["users"].setdefault(fields["name"], {})[mechanism] = {"iterations": fields["iterations"]}
    elif kind == "DelegationTokenRecord":
        tree["tokens"][fields.pop("token_id")] = fields
    elif kind == "AccessControlEntryRecord":
        fields["resource_type"] = KIND_NAMES.get(fields["resource_type"], fields["resource_type"])
        fields["pattern_type"] = PATTERN_NAMES.get(fields["pattern_type"], fields["pattern_type"])
        fields["operation"] = OPERATION_NAMES.get(fields["operation"], fields["operation"])
        fields["permission_type"] = PERMISSION_NAMES.get(fields["permission_type"], fields["permission_type"])
        tree["acls"][fields.pop("id")] = fields
    elif kind == "ClientQuotaRecord":
        entity = " ".join(f"{part['entity_type']}={part['entity_name'] or '(default)'}" for part in fields["entity"])
        tree["quotas"].setdefault(entity, {})[fields["key"]] = fields["value"]
    elif kind == "ProducerIdsRecord":
        tree["producer_ids"] = fields
    else:
        tree.setdefault(kind, {})[str(len(tree.get(kind, {})))] = fields
