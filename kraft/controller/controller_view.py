"""The inputs of a control's decision: one image, the node's settings, and the table of configuration keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kraft.common.broker_state import ACTIVE, FENCED
from kraft.common.config.dynamic.loss_reports import keys_by_partition
from kraft.common.features import SUPPORTED_FEATURES
from kraft.common.internal_topics import GROWTH_ENABLE
from kraft.common.recovery_strategy import RECOVERY_STRATEGY
from kraft.controller.controls.config_schema import ConfigSchema
from kraft.metadata.image.cluster_image import BrokerRegistration, FeatureRange
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.image.partition_registration import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, PartitionRegistration
from kraft.world.steps import Steps

MIN_IN_SYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"

RECORDS_AT_ONCE: Final = 100

_SUPPORTED: Final = OrderedMap({name: FeatureRange(low, high) for name, (low, high) in SUPPORTED_FEATURES.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The part of the node's configuration that the controller uses. Each field names its Kafka key. Times are
    milliseconds."""

    node_id: int
    cluster_id: str
    supported_features: OrderedMap[str, FeatureRange] = field(default=_SUPPORTED)
    default_replication_factor: int = 1  # default.replication.factor
    num_partitions: int = 1  # num.partitions
    delete_topic_enable: bool = True  # delete.topic.enable
    broker_session_timeout_ms: int = 9_000  # broker.session.timeout.ms
    metadata_max_idle_interval_ms: int = 500  # metadata.max.idle.interval.ms; 0 writes no no-op records
    # leader.imbalance.check.interval.seconds; 0: auto.leader.rebalance.enable is false
    leader_imbalance_check_interval_ms: int = 300_000
    unclean_leader_election_interval_ms: int = 300_000  # unclean.leader.election.interval.ms
    unclean_recovery_timeout_ms: int = 300_000  # kraft.unclean.recovery.timeout.ms
    delegation_token_secret_key: str | None = field(default=None, repr=False)  # delegation.token.secret.key
    delegation_token_max_lifetime_ms: int = 604_800_000  # delegation.token.max.lifetime.ms
    delegation_token_expiry_time_ms: int = 86_400_000  # delegation.token.expiry.time.ms
    delegation_token_expiry_check_interval_ms: int = 3_600_000  # delegation.token.expiry.check.interval.ms
    internal_topics_grow: bool = False  # kraft.internal.topics.growth.enable
    remote_storage_enabled: bool = False  # remote.log.storage.system.enable
    # inter.broker.listener.name: the listener to ask brokers at; their first listener if none has that name
    inter_broker_listener_name: str = ""
    probe_timeout_ms: int = 1_000  # Timeout of a connect to a broker that seems dead. A timeout proves nothing.


class ControllerView:
    """The state of the cluster as a decision sees it. Immutable; created for every decision."""

    __slots__ = (
        "_avoided",
        "_early",
        "_held",
        "_min_isr",
        "_report_keys",
        "_strategies",
        "_unclean",
        "capabilities",
        "image",
        "schema",
        "settings",
    )

    def __init__(
        self,
        image: MetadataImage,
        settings: ControllerSettings,
        schema: ConfigSchema,
        held_brokers: frozenset[int] = frozenset(),
    ) -> None:
        """`held_brokers` were fenced before their session timed out. See the property `held_brokers`."""
        self.image = image
        self.settings = settings
        self.schema = schema
        self.capabilities = image.features.capabilities
        """What the finalized metadata.version allows."""
        self._early = held_brokers
        self._held: frozenset[int] | None = None
        self._avoided: frozenset[int] | None = None
        self._min_isr: dict[bytes, int] = {}
        self._strategies: dict[bytes, str] = {}
        self._unclean: dict[bytes, bool] = {}
        self._report_keys: dict[str, dict[int, list[tuple[str, str]]]] = {}

    def holding(self, held_brokers: frozenset[int]) -> ControllerView:
        """Return the same view with these brokers held."""
        return ControllerView(self.image, self.settings, self.schema, held_brokers)

    def after(self, records: Sequence[Any]) -> Steps[ControllerView]:
        """Return the view after these records are replayed. Yields once for each record."""
        image = self.image
        for start in range(0, len(records), RECORDS_AT_ONCE):
            replayed = records[start : start + RECORDS_AT_ONCE]
            image, _ = image.replay_batch(replayed)
            for _ in replayed:
                yield None
        return ControllerView(image, self.settings, self.schema, self._early)

    @property
    def held_brokers(self) -> frozenset[int]:
        """Fenced brokers whose records still count: their session lasts, or an operator keeps them fenced. The
        unclean-election policy does not give their partitions to a replica that may lack records."""
        if self._held is None:
            configs = self.image.configs
            self._held = self._early | {
                broker_id for broker_id in self.avoided if configs.desired_state(broker_id) == FENCED
            }
        return self._held

    def is_same_as(self, other: ControllerView) -> bool:
        """Whether a decision would see the same state in both views. Compares by identity, which costs nothing. A wrong
        "no" only causes one more check."""
        old, new = other.image, self.image
        return (
            old.topics is new.topics
            and old.cluster is new.cluster
            and old.configs is new.configs
            and other.held_brokers == self.held_brokers
        )

    @property
    def elr_enabled(self) -> bool:
        return self.image.features.elr_enabled

    @property
    def own_broker_configs(self) -> Mapping[str, str]:
        return dict(self.image.configs.broker(self.settings.node_id).items())

    @property
    def cluster_configs(self) -> Mapping[str, str]:
        return dict(self.image.configs.cluster.items())

    @property
    def internal_topics_grow(self) -> bool:
        """Whether partitions may be added to internal topics, whose keys are placed by the number of partitions."""
        for configs in (self.own_broker_configs, self.cluster_configs):
            if GROWTH_ENABLE in configs:
                return _is_true(configs[GROWTH_ENABLE])
        return self.settings.internal_topics_grow

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        return self.image.cluster.brokers.get(broker_id)

    def is_active(self, broker_id: int) -> bool:
        return self.image.cluster.is_active(broker_id)

    @property
    def avoided(self) -> frozenset[int]:
        """Brokers that an operator has taken out of service. Such a broker leads a partition only if no other replica
        can."""
        if self._avoided is None:
            self._avoided = frozenset(
                broker_id
                for broker_id in self.image.cluster.brokers
                if self.image.configs.desired_state(broker_id) != ACTIVE
            )
        return self._avoided

    def default_directory(self, broker_id: int) -> bytes:
        """The directory of a new replica: the broker's only one, or UNASSIGNED if the broker chooses among several
        (KIP-858). MIGRATING below 3.7-IV2."""
        broker = self.broker(broker_id)
        if not self.capabilities.assigns_directories:
            return MIGRATING_DIRECTORY
        if broker is None:
            return UNASSIGNED_DIRECTORY
        if not broker.directories:
            return MIGRATING_DIRECTORY
        return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED_DIRECTORY

    def replica_is_usable(self, partition: PartitionRegistration, broker_id: int) -> bool:
        """Whether the replica is in an online directory of a registered broker."""
        broker = self.broker(broker_id)
        return (
            broker is not None
            and broker_id in partition.replicas
            and broker.has_online_directory(partition.directory(broker_id))
        )

    def min_in_sync_replicas(self, topic_id: bytes) -> int:
        """The topic's min.insync.replicas, at most its replication factor."""
        known = self._min_isr.get(topic_id)
        if known is None:
            topic = self.image.topics.by_id[topic_id]
            factor = len(topic.partitions[0].replicas)
            known = self._min_isr[topic_id] = min(int(self._topic_config(topic.name, MIN_IN_SYNC_REPLICAS)), factor)
        return known

    def unclean_election_enabled(self, topic_id: bytes) -> bool:
        known = self._unclean.get(topic_id)
        if known is None:
            name = self.image.topics.by_id[topic_id].name
            known = self._unclean[topic_id] = _is_true(self._topic_config(name, UNCLEAN_LEADER_ELECTION_ENABLE))
        return known

    def recovery_strategy(self, topic_id: bytes) -> str:
        """The topic's kraft.unclean.recovery.strategy, one of RECOVERY_STRATEGIES. Any value but none overrides
        unclean.leader.election.enable."""
        known = self._strategies.get(topic_id)
        if known is None:
            known = self._strategies[topic_id] = self._topic_config(
                self.image.topics.by_id[topic_id].name, RECOVERY_STRATEGY
            )
        return known

    def report_keys(self, topic: str) -> Mapping[int, list[tuple[str, str]]]:
        """The config keys of the topic's reports of unclean elections, by partition."""
        known = self._report_keys.get(topic)
        if known is None:
            known = self._report_keys[topic] = keys_by_partition(self.image.configs.topic(topic).items())
        return known

    def _topic_config(self, topic: str, key: str) -> str:
        return self.schema.effective_topic_config(
            key, dict(self.image.configs.topic(topic).items()), self.own_broker_configs, self.cluster_configs
        )


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"
