"""Writes the Grafana dashboards (config/monitoring/grafana) from one table of panels. `--check` tells whether the files
are up to date."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from kraft._tools.generated_page import write_or_check

FOLDER: Final = Path(__file__).parents[2] / "config" / "monitoring" / "grafana"
COLUMNS, WIDTH, HEIGHT = 2, 12, 8
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


class Panel(NamedTuple):
    """One chart. `queries` are expressions with the legend of their series; `unit` is Grafana's."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]


def _one(title: str, unit: str, expression: str, legend: str) -> Panel:
    return Panel(title, unit, ((expression, legend),))


_BROKER_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_REPLICAS: Final = "kafka_server_replicamanager_"
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_QUORUM: Final = "kafka_server_raftmetrics_"
_SHARE_GROUPS: Final = "kafka_server_sharegroupmetrics_"
_TIERED_ON_DISK: Final = (
    f"sum by (topic) (kafka_log_log_size) and on (topic) sum by (topic) ({_BROKER_TOPICS}remotelogsizebytes)"
)


def _of_tier(name: str) -> str:
    """The PromQL expression of the rate of a counter of tiered topics."""
    return f"sum by (topic) (rate({_BROKER_TOPICS}{name}[$__rate_interval]))"


DASHBOARDS: Final[dict[str, tuple[str, tuple[Panel, ...]]]] = {
    "cluster": (
        "kraft: cluster",
        (
            Panel(
                "Brokers",
                "short",
                ((f"max({_CONTROLLER}activebrokercount)", "live"), (f"max({_CONTROLLER}fencedbrokercount)", "fenced")),
            ),
            Panel(
                "Partitions in need",
                "short",
                (
                    (f"max({_CONTROLLER}offlinepartitionscount)", "without a leader"),
                    (f"sum({_REPLICAS}underminisrpartitioncount)", "below min.insync.replicas"),
                    (f"sum({_REPLICAS}underreplicatedpartitions)", "under-replicated"),
                ),
            ),
            Panel(
                "Bytes",
                "Bps",
                (
                    (f"sum(rate({_BROKER_TOPICS}bytesin_total[$__rate_interval]))", "in"),
                    (f"sum(rate({_BROKER_TOPICS}bytesout_total[$__rate_interval]))", "out"),
                    (f"sum(rate({_BROKER_TOPICS}replicationbytesin_total[$__rate_interval]))", "replicated"),
                ),
            ),
            _one("Records", "wps", f"sum(rate({_BROKER_TOPICS}messagesin_total[$__rate_interval]))", "in"),
            Panel(
                "Time of requests (99th percentile)",
                "s",
                (
                    (
                        "histogram_quantile(0.99, sum by (request, le) "
                        '(rate(kraft_request_duration_seconds_bucket{request=~"Produce|Fetch"}[$__rate_interval])))',
                        "{{request}}",
                    ),
                ),
            ),
            _one(
                "Disk used",
                "percentunit",
                "1 - kraft_disk_free_bytes / kraft_disk_total_bytes",
                "{{instance}} {{directory}}",
            ),
            Panel(
                "In-sync sets",
                "ops",
                (
                    (f"sum(rate({_REPLICAS}isrshrinks_total[$__rate_interval]))", "shrink"),
                    (f"sum(rate({_REPLICAS}isrexpands_total[$__rate_interval]))", "grow"),
                ),
            ),
            _one(
                "Unclean elections",
                "short",
                "max(kafka_controller_controllerstats_uncleanleaderelections_total)",
                "since the start",
            ),
        ),
    ),
    "topics": (
        "kraft: topics",
        (
            _one(
                "Records in",
                "wps",
                f"sum by (topic) (rate({_BROKER_TOPICS}messagesin_total[$__rate_interval]))",
                "{{topic}}",
            ),
            _one(
                "Bytes in",
                "Bps",
                f"sum by (topic) (rate({_BROKER_TOPICS}bytesin_total[$__rate_interval]))",
                "{{topic}}",
            ),
            _one(
                "Bytes out",
                "Bps",
                f"sum by (topic) (rate({_BROKER_TOPICS}bytesout_total[$__rate_interval]))",
                "{{topic}}",
            ),
            _one("Size of all replicas", "bytes", "sum by (topic) (kafka_log_log_size)", "{{topic}}"),
            Panel(
                "Requests",
                "reqps",
                (
                    (
                        f"sum by (topic) (rate({_BROKER_TOPICS}totalproducerequests_total[$__rate_interval]))",
                        "produce {{topic}}",
                    ),
                    (
                        f"sum by (topic) (rate({_BROKER_TOPICS}totalfetchrequests_total[$__rate_interval]))",
                        "fetch {{topic}}",
                    ),
                ),
            ),
            Panel(
                "Failed and refused",
                "short",
                (
                    (f"sum by (topic) ({_BROKER_TOPICS}failedproducerequests_total)", "produce {{topic}}"),
                    (f"sum by (topic) ({_BROKER_TOPICS}failedfetchrequests_total)", "fetch {{topic}}"),
                    (f"sum by (topic) ({_BROKER_TOPICS}bytesrejected_total)", "bytes too large {{topic}}"),
                ),
            ),
        ),
    ),
    "tiers": (
        "kraft: tiered storage",
        (
            _one("In the store", "bytes", f"sum by (topic) ({_BROKER_TOPICS}remotelogsizebytes)", "{{topic}}"),
            _one("On the disks of all replicas", "bytes", _TIERED_ON_DISK, "{{topic}}"),
            _one("Copied", "Bps", _of_tier("remotecopybytes_total"), "{{topic}}"),
            _one("Read from the store", "Bps", _of_tier("remotefetchbytes_total"), "{{topic}}"),
            _one("To be copied", "bytes", f"sum by (topic) ({_BROKER_TOPICS}remotecopylagbytes)", "{{topic}}"),
            _one(
                "The next copy has waited",
                "s",
                "max by (topic) (kraft_remote_copy_wait_seconds)",
                "{{topic}}",
            ),
            Panel(
                "Errors",
                "ops",
                (
                    (_of_tier("remotecopyerrors_total"), "copy {{topic}}"),
                    (_of_tier("remotefetcherrors_total"), "read {{topic}}"),
                    (_of_tier("remotedeleteerrors_total"), "delete {{topic}}"),
                    (_of_tier("buildremotelogauxstateerrors_total"), "new follower {{topic}}"),
                ),
            ),
            _one("Partitions put off", "short", "sum by (topic) (kraft_remote_put_off_partitions)", "{{topic}}"),
            Panel(
                "Segments",
                "ops",
                (
                    (_of_tier("remotecopyrequests_total"), "copied {{topic}}"),
                    (_of_tier("remotedeleterequests_total"), "deleted {{topic}}"),
                ),
            ),
            _one("To be deleted", "bytes", f"sum by (topic) ({_BROKER_TOPICS}remotedeletelagbytes)", "{{topic}}"),
        ),
    ),
    "groups": (
        "kraft: consumer groups",
        (
            _one(
                "Lag",
                "short",
                "sum by (consumergroup, topic) (kafka_consumergroup_lag_sum)",
                "{{consumergroup}} {{topic}}",
            ),
            _one(
                "Lag in seconds",
                "s",
                "max by (consumergroup, topic) (kafka_consumergroup_lag_seconds)",
                "{{consumergroup}} {{topic}}",
            ),
            _one(
                "Committed",
                "wps",
                "sum by (consumergroup, topic) (rate(kafka_consumergroup_current_offset[$__rate_interval]))",
                "{{consumergroup}} {{topic}}",
            ),
            _one("Members", "short", "sum by (consumergroup) (kafka_consumergroup_members)", "{{consumergroup}}"),
            Panel(
                "Left out above, since others are further behind",
                "short",
                (
                    ("sum(kraft_consumergroup_topics_left_out)", "topics of groups"),
                    ("sum(kraft_consumergroup_left_out_lag)", "records that they are behind"),
                ),
            ),
            Panel(
                "Rebalances",
                "ops",
                (
                    ("sum(rate(kraft_classic_group_rebalance_count[$__rate_interval]))", "classic groups"),
                    (
                        "sum(rate(kafka_server_group_coordinator_metrics_consumer_group_rebalance_count[$__rate_interval]))",
                        "consumer groups",
                    ),
                    (
                        "sum(rate(kafka_server_group_coordinator_metrics_streams_group_rebalance_count[$__rate_interval]))",
                        "streams groups",
                    ),
                ),
            ),
            _one(
                "Groups by protocol",
                "short",
                "sum by (protocol) (kafka_server_group_coordinator_metrics_group_count)",
                "{{protocol}}",
            ),
            _one(
                "Streams groups by state",
                "short",
                "sum by (state) (kafka_server_group_coordinator_metrics_streams_group_count)",
                "{{state}}",
            ),
        ),
    ),
    "shares": (
        "kraft: share groups",
        (
            _one(
                "Records not finished",
                "short",
                "sum by (sharegroup, topic) (kraft_sharegroup_lag_sum)",
                "{{sharegroup}} {{topic}}",
            ),
            _one("Members", "short", "sum by (sharegroup) (kraft_sharegroup_members)", "{{sharegroup}}"),
            _one(
                "Acknowledged",
                "wps",
                f"sum by (acktype) (rate({_SHARE_GROUPS}recordacknowledgements_total[$__rate_interval]))",
                "{{acktype}}",
            ),
            _one(
                "In flight",
                "short",
                "sum by (group, topic) (kafka_server_sharepartitionmetrics_inflightmessagecount)",
                "{{group}} {{topic}}",
            ),
            _one(
                "Locks that expired",
                "wps",
                "sum by (instance) (rate(kraft_share_lock_timeouts_total[$__rate_interval]))",
                "{{instance}}",
            ),
            _one(
                "Dead letters",
                "wps",
                "sum by (group) (rate(kraft_share_dead_letters_written_total[$__rate_interval]))",
                "{{group}}",
            ),
            _one(
                "Until a state is written",
                "ms",
                "max by (instance) (kafka_server_share_coordinator_metrics_write_latency_avg)",
                "{{instance}}",
            ),
            _one(
                "Groups by state",
                "short",
                "sum by (state) (kafka_server_group_coordinator_metrics_share_group_count)",
                "{{state}}",
            ),
        ),
    ),
    "quorum": (
        "kraft: controllers",
        (
            _one("Active controller", "short", f"max({_QUORUM}current_leader)", "node"),
            _one("Epoch", "short", f"max({_QUORUM}current_epoch)", "epoch"),
            _one("Records behind", "short", "max by (node, role) (kraft_quorum_lag_records)", "{{role}} {{node}}"),
            _one("Since caught up", "s", "max by (node, role) (kraft_quorum_behind_seconds)", "{{role}} {{node}}"),
            _one("Records a second", "wps", f"max({_QUORUM}append_records_rate)", "written"),
            _one("Until committed", "ms", f"max({_QUORUM}commit_latency_avg)", "on average"),
            _one("Metadata not applied", "short", "kafka_server_broker_metadata_metrics_lag", "{{instance}}"),
            _one("Topics and partitions", "short", f"max({_CONTROLLER}globalpartitioncount)", "partitions"),
        ),
    ),
    "nodes": (
        "kraft: nodes",
        (
            _one(
                "Busy",
                "percentunit",
                "1 - kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
                "{{instance}}",
            ),
            _one(
                "Processor",
                "percentunit",
                'rate(process_cpu_seconds_total{job="kraft"}[$__rate_interval])',
                "{{instance}}",
            ),
            _one("Memory", "bytes", 'process_resident_memory_bytes{job="kraft"}', "{{instance}}"),
            _one(
                "Connections",
                "short",
                "kafka_server_socket_server_metrics_connection_count",
                "{{instance}} {{listener}}",
            ),
            _one(
                "Requests",
                "reqps",
                "sum by (instance, request) (rate(kafka_network_requestmetrics_requests_total[$__rate_interval]))",
                "{{instance}} {{request}}",
            ),
            _one("Longest steps of the loop", "s", "topk(5, kraft_loop_longest_step_seconds)", "{{instance}} {{task}}"),
            _one(
                "Sync (99th percentile)",
                "s",
                "histogram_quantile(0.99, sum by (instance, le) (rate(kraft_fsync_seconds_bucket[$__rate_interval])))",
                "{{instance}}",
            ),
            _one("Open files", "short", 'process_open_fds{job="kraft"}', "{{instance}}"),
            _one(
                "Clients that waited for quotas",
                "ops",
                "sum by (quota) (rate(kraft_throttles_total[$__rate_interval]))",
                "{{quota}}",
            ),
            _one(
                "Failed logins",
                "ops",
                "sum by (listener) (rate(kraft_failed_logins_total[$__rate_interval]))",
                "{{listener}}",
            ),
        ),
    ),
}


def expressions() -> Iterator[tuple[str, str]]:
    """Title of the panel and expression of every query."""
    for title, panels in DASHBOARDS.values():
        for panel in panels:
            for expression, _ in panel.queries:
                yield f"{title}: {panel.title}", expression


def dashboard(name: str) -> dict[str, Any]:
    """The JSON document of a dashboard."""
    title, panels = DASHBOARDS[name]
    return {
        "uid": f"kraft-{name}",
        "title": title,
        "tags": ["kraft"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for place, (expression, legend) in enumerate(panel.queries)
        ],
    }


def main(arguments: list[str]) -> int:
    """Write or check all dashboards. Returns the exit code: 1 if `--check` finds a difference."""
    return max(
        write_or_check(json.dumps(dashboard(name), indent=1) + "\n", FOLDER / f"{name}.json", arguments)
        for name in DASHBOARDS
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
