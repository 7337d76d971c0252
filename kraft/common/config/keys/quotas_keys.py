"""Broker keys. Quotas and metrics."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import ACCEPTED, CLASS, CLUSTER_WIDE, INT, LIST, LONG, LOW, PLUGIN, READ_ONLY, REFUSED, STRING
from kraft.common.config.validators import ANYTHING, DISTINCT, at_least

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("quota.window.num", INT, "11", LOW, READ_ONLY, REFUSED, at_least(1), "How many samples the client quotas keep. Quotas are not there."),
    key("quota.window.size.seconds", INT, "1", LOW, READ_ONLY, REFUSED, at_least(1), "How long one sample of the client quotas is. Quotas are not there."),
    key("controller.quota.window.num", INT, "11", LOW, READ_ONLY, REFUSED, at_least(1),
        "How many samples the quota on changes of topics keeps. Quotas are not there."),
    key("controller.quota.window.size.seconds", INT, "1", LOW, READ_ONLY, REFUSED, at_least(1),
        "How long one sample of that quota is. Quotas are not there."),
    key("replication.quota.window.num", INT, "11", LOW, READ_ONLY, REFUSED, at_least(1),
        "How many samples the replication quotas keep. Quotas are not there."),
    key("replication.quota.window.size.seconds", INT, "1", LOW, READ_ONLY, REFUSED, at_least(1),
        "How long one sample of the replication quotas is. Quotas are not there."),
    key("alter.log.dirs.replication.quota.window.num", INT, "11", LOW, READ_ONLY, REFUSED, at_least(1),
        "How many samples the quota on moves between directories keeps. Quotas are not there."),
    key("alter.log.dirs.replication.quota.window.size.seconds", INT, "1", LOW, READ_ONLY, REFUSED, at_least(1),
        "How long one sample of that quota is. Quotas are not there."),
    key("client.quota.callback.class", CLASS, None, LOW, READ_ONLY, REFUSED, ANYTHING,
        "A Java class that decides quotas. It cannot be loaded here, and passing over quotas is not safe."),
    key("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", LOW, CLUSTER_WIDE, PLUGIN, DISTINCT,
        "Java classes that report metrics. The HTTP admin serves them at /metrics instead."),
    key("metrics.num.samples", INT, "2", LOW, READ_ONLY, ACCEPTED, at_least(1), "How many samples a metric's rate is taken over."),
    key("metrics.sample.window.ms", LONG, "30000", LOW, READ_ONLY, ACCEPTED, at_least(1), "How long one such sample is."),
    key("metrics.recording.level", STRING, "INFO", LOW, READ_ONLY, ACCEPTED, ANYTHING, "How detailed metrics are kept."),
    key("kafka.metrics.reporters", LIST, "", LOW, READ_ONLY, PLUGIN, DISTINCT,
        "Java classes that report the older kind of metrics. The HTTP admin serves them at /metrics instead."),
    key("kafka.metrics.polling.interval.secs", INT, "10", LOW, READ_ONLY, ACCEPTED, at_least(1), "How often those classes are asked."),
    key("telemetry.max.bytes", INT, "1048576", LOW, READ_ONLY, ACCEPTED, at_least(1), "The largest push of client metrics that is taken."),
)
