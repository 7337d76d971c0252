"""The cluster's whole metadata as one immutable value.

`replay_batch` opens each part that a batch changes once, replays every record into its draft, and closes the drafts.
This takes about 2.6 us per record, whatever the size of the image. Markers of metadata transactions (KIP-868) and no-op
records change nothing here. The loader hides open transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kraft.common.metadata_versions import METADATA_VERSION_MAX
from kraft.metadata.image.acls_image import AclsDraft, AclsImage
from kraft.metadata.image.client_quotas_image import ClientQuotasDraft, ClientQuotasImage
from kraft.metadata.image.cluster_image import ClusterDraft, ClusterImage
from kraft.metadata.image.configs_image import ConfigsDraft, ConfigsImage
from kraft.metadata.image.delegation_tokens_image import DelegationTokensDraft, DelegationTokensImage
from kraft.metadata.image.features_image import FeaturesDraft, FeaturesImage
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.producer_ids_image import ProducerIdsDraft, ProducerIdsImage
from kraft.metadata.image.scram_image import ScramDraft, ScramImage
from kraft.metadata.image.topics_image import TopicsDraft, TopicsImage
from kraft.metadata.image.writer_options import WriterOptions
from kraft.metadata.records.remove_topic_record import RemoveTopicRecord
from kraft.metadata.records.table import RECORDS

Record = Any


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The state of the metadata log as of one offset. Images can be compared, kept and shared freely."""

    features: FeaturesImage = field(default_factory=FeaturesImage)
    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    client_quotas: ClientQuotasImage = field(default_factory=ClientQuotasImage)
    producer_ids: ProducerIdsImage = field(default_factory=ProducerIdsImage)
    acls: AclsImage = field(default_factory=AclsImage)
    scram: ScramImage = field(default_factory=ScramImage)
    delegation_tokens: DelegationTokensImage = field(default_factory=DelegationTokensImage)

    @property
    def is_empty(self) -> bool:
        """Whether no bootstrap records were replayed yet."""
        return self.features.metadata_version is None

    def replay_batch(self, records: Iterable[Record]) -> tuple[MetadataImage, MetadataChanges]:
        """Return the image after `records`, and the changes.

        Raises ValueError for a record that contradicts the image: no controller wrote such a log.
        """
        draft = MetadataDraft(self)
        handlers = _Handlers(draft)
        for record in records:
            handlers[record.API_KEY](record)
        return draft.finish()

    def write(self, options: WriterOptions | None = None) -> Iterator[Record]:
        """Return records that recreate this image, for a snapshot. Their order depends only on the content.

        Without `options` they are those of the finalized metadata.version, or of the newest one while none is
        finalized. Raises UnwritableMetadata for contents that the level does not know, unless `options` say otherwise.
        """
        if options is None:
            options = WriterOptions(METADATA_VERSION_MAX) if self.is_empty else self.features.writer_options
        yield from self.features.write()
        yield from self.cluster.write(options)
        yield from self.topics.write(options)
        yield from self.configs.write()
        yield from self.client_quotas.write()
        yield from self.producer_ids.write()
        yield from self.acls.write()
        yield from self.scram.write(options)
        yield from self.delegation_tokens.write(options)


_PARTS: Final = {
    "features": FeaturesDraft,
    "cluster": ClusterDraft,
    "topics": TopicsDraft,
    "configs": ConfigsDraft,
    "client_quotas": ClientQuotasDraft,
    "producer_ids": ProducerIdsDraft,
    "acls": AclsDraft,
    "scram": ScramDraft,
    "delegation_tokens": DelegationTokensDraft,
}

# Replay of each record: the part and the method of its draft. RemoveTopic changes two parts, see `MetadataDraft`.
_REPLAY: Final = {
    "RegisterBrokerRecord": ("cluster", "register_broker"),
    "UnregisterBrokerRecord": ("cluster", "unregister_broker"),
    "TopicRecord": ("topics", "topic"),
    "PartitionRecord": ("topics", "partition"),
    "ConfigRecord": ("configs", "config"),
    "PartitionChangeRecord": ("topics", "partition_change"),
    "FenceBrokerRecord": ("cluster", "fence_broker"),
    "UnfenceBrokerRecord": ("cluster", "unfence_broker"),
    "DelegationTokenRecord": ("delegation_tokens", "delegation_token"),
    "UserScramCredentialRecord": ("scram", "user_scram_credential"),
    "FeatureLevelRecord": ("features", "feature_level"),
    "ClientQuotaRecord": ("client_quotas", "client_quota"),
    "ProducerIdsRecord": ("producer_ids", "producer_ids"),
    "BrokerRegistrationChangeRecord": ("cluster", "change_broker"),
    "AccessControlEntryRecord": ("acls", "access_control_entry"),
    "RemoveAccessControlEntryRecord": ("acls", "remove_access_control_entry"),
    "RemoveUserScramCredentialRecord": ("scram", "remove_user_scram_credential"),
    "RemoveDelegationTokenRecord": ("delegation_tokens", "remove_delegation_token"),
    "RegisterControllerRecord": ("cluster", "register_controller"),
    "UnregisterControllerRecord": ("cluster", "unregister_controller"),
    "ClearElrRecord": ("topics", "clear_elr"),
}
_WITHOUT_EFFECT: Final = frozenset(
    {
        "NoOpRecord",
        "ZkMigrationStateRecord",
        "BeginTransactionRecord",
        "EndTransactionRecord",
        "AbortTransactionRecord",
    }
)


class MetadataDraft:
    """An image while records are replayed onto it. The draft of a part is opened when the first record needs it."""

    __slots__ = ("_base", "_parts")

    def __init__(self, base: MetadataImage) -> None:
        self._base = base
        self._parts: dict[str, Any] = {}

    def part(self, name: str) -> Any:
        draft = self._parts.get(name)
        if draft is None:
            draft = self._parts[name] = _PARTS[name](getattr(self._base, name))
        return draft

    def handler(self, record_id: int) -> Callable[[Record], Any]:
        """Return the function that replays records of this id. Raises ValueError for an unknown id."""
        _, name = RECORDS.get(record_id, ("", ""))
        if name in _WITHOUT_EFFECT:
            return lambda record: None
        if name == RemoveTopicRecord.__name__:
            return self._remove_topic
        if name not in _REPLAY:
            raise ValueError(f"metadata record id {record_id} is unknown")
        part, method = _REPLAY[name]
        handler: Callable[[Record], Any] = getattr(self.part(part), method)
        return handler

    def finish(self) -> tuple[MetadataImage, MetadataChanges]:
        changes = MetadataChanges()
        parts = {name: getattr(self._base, name) for name in _PARTS}
        for name, draft in self._parts.items():
            parts[name] = draft.finish()
            if name == "topics":
                changes.topics = draft.changes
                changes.topics.partitions = {
                    topic_id: changed for topic_id, changed in draft.changes.partitions.items() if changed
                }
            elif name == "cluster":
                changes.brokers, changes.controllers = draft.changed_brokers, draft.changed_controllers
            else:
                setattr(changes, name, draft.changed)
        return MetadataImage(**parts), changes

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        self.part("configs").remove_topic(self.part("topics").remove_topic(record))


class _Handlers(dict[int, Callable[[Record], Any]]):
    """Replay functions by record id, looked up at the first use within a batch."""

    def __init__(self, draft: MetadataDraft) -> None:
        super().__init__()
        self._draft = draft

    def __missing__(self, record_id: int) -> Callable[[Record], Any]:
        handler = self[record_id] = self._draft.handler(record_id)
        return handler
