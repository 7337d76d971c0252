"""The metrics of a node, under the names that existing dashboards and alerts query (the JMX exporter's and
kafka_exporter's), read from the node's parts for each scrape.

Nothing is counted twice: hot paths keep plain integers of their own (`ApiCounters`), logs and images know their sizes.
A scrape reads them in slices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final

import trio

from kraft.common.metrics import SECONDS_BOUNDS, Family, MetricsRegistry, render_prometheus
from kraft.common.version import VERSION
from kraft.protocol.api_keys import name_of
from kraft.protocol.error_codes import name_of as error_name_of
from kraft.protocol.records.validation import READ_BY
from kraft.server.events.event_journal import EventKind
from kraft.server.facts.cluster_facts import offline_log_dirs
from kraft.server.facts.late_transactions import late_ms
from kraft.server.facts.node_status import failed_work, slow_disks
from kraft.server.metrics.client_families import client_families, register_clients
from kraft.server.metrics.dead_letter_families import register_dead_letters
from kraft.server.metrics.group_families import group_families, register_group_activity
from kraft.server.metrics.group_lags import GroupLags
from kraft.server.metrics.latest import Latest
from kraft.server.metrics.node_families import follower_lags, quorum_families, request_durations
from kraft.server.metrics.partition_metrics import PartitionSums, partition_families, sum_partitions
from kraft.server.metrics.process_families import register_process
from kraft.server.metrics.raft_families import register_raft
from kraft.server.metrics.share_families import register_shares, share_partition_families
from kraft.server.metrics.share_lags import ShareLags
from kraft.server.metrics.transaction_families import register_transaction_activity, transaction_families

if TYPE_CHECKING:
    from kraft.metadata.image.metadata_image import MetadataImage
    from kraft.server.events.audit import AuditLog
    from kraft.server.node import Node

Number = Callable[[], float]
PART_CHARS: Final = 65_536
"""Approximate characters of one part of the text. The whole text may have a hundred megabytes, and joining it in one
step would block the loop."""
SERIES_A_TURN: Final = 500
"""Series formatted between two yields: less than a millisecond."""


class NodeMetrics:
    """Renders the metrics of one node. Gauges are registered once; series by partition and group are gathered for each
    scrape."""

    def __init__(self, node: Node, lags: GroupLags) -> None:
        self._node = node
        self._group_lags = lags
        self._partition_sums: Latest[PartitionSums] = Latest(node.world.clock.now, lambda found: found.is_large)
        self._share_lags = None if node.broker is None else ShareLags(node.broker.groups.share, node.world.clock)
        self._registry = MetricsRegistry()
        self._register_node()
        register_process(self._registry, node.world)
        self._register_controller()
        self._register_background_work()
        self._register_logins()
        self._register_throttles()
        self._register_raft()
        if node.broker is not None:
            self._register_broker()

    async def render(self, by: str | None = None) -> list[str]:
        """The Prometheus text, in parts of about PART_CHARS. `by` is as in `partition_families` and
        `GroupLags.families`. Yields after every slice."""
        lags, shown = await self._group_lags.families(by)
        gathered = [*self._registry.families(), *lags, *await quorum_families(self._node)]
        if self._node.broker is not None:
            gathered += await group_families(self._node.broker.groups.snapshots(), shown)
            gathered += await self._share_families(by)
            telemetry = self._node.broker.services.telemetry
            gathered += await client_families(telemetry.instances.live(telemetry.now_ms()))
            gathered += [] if self._node.group_progress is None else self._node.group_progress.families()
            gathered += [
                *request_durations(self._node.broker.dispatcher.counters),
                await follower_lags(self._node.broker.replicas),
                *await partition_families(await self._partition_sums.get(self._sum_partitions), by),
                *await transaction_families(
                    self._node.broker.transactions.coordinator.runtime.read_loaded(lambda state: state),
                    self._node.world.clock.wall_ms(),
                ),
            ]
        parts: list[str] = []
        pieces: list[str] = []
        chars = 0
        for piece in render_prometheus(gathered, SERIES_A_TURN):
            pieces.append(piece)
            chars += len(piece)
            if chars >= PART_CHARS:
                parts.append("".join(pieces))
                pieces, chars = [], 0
            await trio.lowlevel.checkpoint()
        return [*parts, "".join(pieces)]

    async def _share_families(self, by: str | None) -> list[Family]:
        broker = self._node.broker
        assert broker is not None
        assert self._share_lags is not None
        lags = await self._share_lags.families(broker.groups.snapshots(), by)
        return [*lags, *await share_partition_families(broker.shares, broker.replicas.topic_names.get, by)]

    async def _sum_partitions(self) -> PartitionSums:
        assert self._node.broker is not None
        replicas = self._node.broker.replicas
        return await sum_partitions(replicas, replicas.past_traffic, late_ms(self._node), self._node.world.clock.now())

    @property
    def _image(self) -> MetadataImage:
        return self._node.shared.loader.image

    def _register_node(self) -> None:
        node, registry = self._node, self._registry
        node.stalls.register(registry)
        registry.gauges(
            "kraft_build_info",
            "The running version, and its implementation of the record reader.",
            ("version", "records_read_by"),
            lambda: [((VERSION, READ_BY), 1)],
        )
        registry.gauges(
            "kraft_disk_free_bytes",
            "Room left for each log directory.",
            ("directory",),
            lambda: self._disks(node.world.files.free_bytes),
        )
        registry.gauges(
            "kraft_disk_total_bytes",
            "Size of the disk of each log directory.",
            ("directory",),
            lambda: self._disks(node.world.files.total_bytes),
        )
        registry.counters(
            "kraft_events_total",
            "Events by kind, as this node saw them.",
            ("kind",),
            lambda: [((kind,), count) for kind, count in sorted(node.events.counts.items())],
        )
        registry.counters(
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            "Unclean leader elections, which may lose records, as seen in this node's metadata.",
            (),
            lambda: [((), node.events.counts.get(EventKind.UNCLEAN_ELECTION, 0))],
        )
        registry.gauges(
            "kafka_server_socket_server_metrics_connection_count",
            "Open connections of clients and of other nodes.",
            ("listener",),
            self._connections,
        )
        self._register_machine()

    def _register_machine(self) -> None:
        node, registry = self._node, self._registry
        registry.gauges(
            "tls_certificate_expiry_timestamp_seconds",
            "Expiry time of the first certificate presented at a listener, since 1970. HTTP_ADMIN stands for "
            "the HTTP admin.",
            ("listener",),
            lambda: [((name,), end) for name, end in node.keys.expiries().items()],
        )
        registry.gauge(
            "kraft_clock_seconds",
            "This node's wall clock at the scrape, in seconds since 1970.",
            lambda: node.world.clock.wall_ms() / 1000,
        )
        registry.gauges(
            "kraft_slow_disk_seconds",
            "The longest sync of the last five minutes, of log directories whose disks are slow.",
            ("directory",),
            lambda: [((each.path,), each.seconds) for each in slow_disks(node)],
        )
        registry.gauge(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that failed.",
            lambda: len(offline_log_dirs(node)),
        )
        registry.gauge(
            "kafka_log_logmanager_cordonedlogdirectorycount",
            "Log directories that take no new replicas (cordoned.log.dirs).",
            lambda: 0 if node.broker is None else len(node.broker.replicas.logs.cordoned),
        )
        registry.gauges(
            "kafka_log_logmanager_logdirectoryoffline",
            "1 for a log directory that failed.",
            ("logDirectory",),
            lambda: self._among(offline_log_dirs(node)),
        )
        registry.gauges(
            "kafka_log_logmanager_logdirectorycordoned",
            "1 for a log directory that takes no new replicas (cordoned.log.dirs).",
            ("logDirectory",),
            lambda: self._among(() if node.broker is None else node.broker.replicas.logs.cordoned),
        )

    def _connections(self) -> list[tuple[tuple[str, ...], float]]:
        roles = (self._node.broker, self._node.controller)
        servers = [server for role in roles if role is not None for server in role.socket_servers.values()]
        return [((server.name,), float(len(server.connections))) for server in servers]

    def _among(self, paths: Collection[str]) -> list[tuple[tuple[str, ...], float]]:
        """1 for each log directory that is among the paths, 0 for the others."""
        return [((path,), float(path in paths)) for path in self._node.config.log_dirs]

    def _disks(self, measure: Callable[[str], int]) -> list[tuple[tuple[str, ...], float]]:
        series: list[tuple[tuple[str, ...], float]] = []
        for path in self._node.config.log_dirs:
            try:
                series.append(((path,), measure(path)))
            except OSError:
                continue  # The count of offline directories tells of it.
        return series

    def _register_controller(self) -> None:
        prefix = "kafka_controller_kafkacontroller_"
        cluster = "According to this node's metadata."
        gauges: dict[str, tuple[str, Number]] = {
            "activecontrollercount": ("1 on the active controller.", lambda: int(self._node.shared.raft.is_leader)),
            "activebrokercount": (f"Brokers that are not fenced. {cluster}", lambda: self._brokers(fenced=False)),
            "fencedbrokercount": (f"Registered brokers that are fenced. {cluster}", lambda: self._brokers(fenced=True)),
            "offlinepartitionscount": (
                f"Partitions without a leader. {cluster}",
                lambda: len(self._image.topics.leaderless),
            ),
            "preferredreplicaimbalancecount": (
                f"Partitions led by another than their first replica. {cluster}",
                lambda: len(self._image.topics.imbalanced),
            ),
            "globaltopiccount": (f"Topics. {cluster}", lambda: len(self._image.topics.by_id)),
            "globalpartitioncount": (
                f"Partitions. {cluster}",
                lambda: sum(len(topic.partitions) for topic in self._image.topics.by_id.values()),
            ),
        }
        for name, (help_text, read) in gauges.items():
            self._registry.gauge(prefix + name, help_text, read)
        self._registry.gauge("kafka_brokers", f"Live brokers. {cluster}", lambda: self._brokers(fenced=False))

    def _brokers(self, *, fenced: bool) -> int:
        return sum(broker.fenced == fenced for broker in self._image.cluster.brokers.values())

    def _register_background_work(self) -> None:
        self._registry.counters(
            "kraft_background_work_failures_total",
            "Items of background work that failed unexpectedly and were set aside.",
            ("work",),
            self._background_failures,
        )

    def _register_logins(self) -> None:
        self._registry.counters(
            "kraft_logins_total",
            "Logins (SASL) that succeeded.",
            ("listener", "mechanism"),
            lambda: [series for audit in self._audits() for series in audit.logins.successes()],
        )
        self._registry.counters(
            "kraft_failed_logins_total",
            "Logins and TLS handshakes that failed, by kind of failure. Addresses without a series are "
            "counted as other.",
            ("listener", "mechanism", "host", "failure"),
            lambda: [series for audit in self._audits() for series in audit.logins.failures()],
        )

    def _register_throttles(self) -> None:
        self._registry.counters(
            "kraft_throttles_total",
            "Times that a client had to wait for a quota.",
            ("listener", "quota"),
            lambda: [series for audit in self._audits() for series in audit.throttles.waits()],
        )
        self._registry.counters(
            "kraft_throttle_seconds_total",
            "Total time that clients had to wait for their quotas.",
            ("listener", "quota"),
            lambda: [series for audit in self._audits() for series in audit.throttles.seconds()],
        )

    def _audits(self) -> list[AuditLog]:
        roles = (self._node.broker, self._node.controller)
        return [role.audit for role in roles if role is not None]

    def _background_failures(self) -> Iterator[tuple[tuple[str, ...], float]]:
        sums: dict[str, int] = {}
        for place in failed_work(self._node):
            for work, count in place.failures.items():
                sums[work] = sums.get(work, 0) + count
        for work in sorted(sums):
            yield (work,), sums[work]

    def _register_raft(self) -> None:
        register_raft(self._registry, self._node.shared.raft)
        applied = "kafka_server_broker_metadata_metrics_last_applied_record_offset"
        self._registry.gauge(
            applied,
            "Offset up to which this node has applied the metadata.",
            lambda: self._node.shared.loader.published_offset,
        )
        self._registry.gauge(
            "kafka_server_broker_metadata_metrics_lag",
            "Committed metadata records that this node has not applied yet.",
            self._metadata_lag,
        )

    def _metadata_lag(self) -> float:
        shared = self._node.shared
        return max(0, shared.raft.high_watermark - 1 - shared.loader.published_offset)

    def _register_broker(self) -> None:
        broker = self._node.broker
        assert broker is not None
        self._registry.gauge(
            "kafka_server_kafkaserver_brokerstate",
            "3 is running; 6 and 7 are shutting down.",
            lambda: broker.lifecycle.state,
        )
        requests, seconds = "kafka_network_requestmetrics_requests_total", "kraft_request_seconds_total"
        counters = broker.dispatcher.counters
        self._registry.gauge(
            "kafka_server_replicamanager_offlinereplicacount",
            "Replicas of this broker on log directories that failed, or whose logs are damaged.",
            lambda: len(broker.replicas.offline),
        )
        self._registry.gauge(
            "kafka_server_replicafetchermanager_maxlag",
            "Records that this broker has yet to copy in the partition in which it is furthest behind its leader.",
            lambda: broker.replication.fetchers.lag_max,
        )
        self._registry.gauge(
            "kafka_server_replicafetchermanager_failedpartitionscount",
            "Partitions that this broker does not fetch until a back-off after an error has passed.",
            lambda: broker.replication.fetchers.put_aside,
        )
        flusher = broker.replicas.flusher
        self._registry.register_histogram(
            "kraft_fsync_seconds", "Rounds of syncs of data logs.", flusher.durations, SECONDS_BOUNDS
        )
        register_group_activity(self._registry, broker.groups.activity)
        register_shares(self._registry, broker.shares)
        register_clients(self._registry, broker.services.telemetry)
        register_transaction_activity(self._registry, broker.transactions.coordinator.activity)
        register_dead_letters(self._registry, broker.shares.letters.counts)
        self._registry.counters(
            requests,
            "Requests by API and version.",
            ("request", "version"),
            lambda: [
                ((name_of(key), str(version)), counted.requests) for (key, version), counted in sorted(counters.items())
            ],
        )
        self._registry.counters(
            seconds,
            (
                "Time in handlers by API and version. Produce and Fetch answer outside of handlers: see "
                "kraft_request_duration_seconds."
            ),
            ("request", "version"),
            lambda: [
                ((name_of(key), str(version)), counted.seconds) for (key, version), counted in sorted(counters.items())
            ],
        )
        self._registry.counters(
            "kafka_network_requestmetrics_errors_total",
            "Requests that failed as a whole.",
            ("request", "error"),
            self._errors,
        )

    def _errors(self) -> Iterator[tuple[tuple[str, ...], float]]:
        assert self._node.broker is not None
        sums: dict[tuple[str, ...], float] = {}
        for (key, _), counted in sorted(self._node.broker.dispatcher.counters.items()):
            for code, count in sorted(counted.errors.items()):
                labels = (name_of(key), error_name_of(code))
                sums[labels] = sums.get(labels, 0) + count
        yield from sums.items()
