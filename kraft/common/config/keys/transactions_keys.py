"""Broker keys. Transactions, and the producers' identities."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import ACCEPTED, BOOLEAN, CLUSTER_WIDE, ENFORCED, HIGH, INT, LOW, READ_ONLY, SHORT
from kraft.common.config.validators import ANYTHING, at_least

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("transaction.max.timeout.ms", INT, "900000", HIGH, READ_ONLY, ACCEPTED, at_least(1),
        "The longest timeout that a producer may ask for its transactions."),
    key("transaction.partition.verification.enable", BOOLEAN, "true", LOW, CLUSTER_WIDE, ACCEPTED, ANYTHING,
        "Whether a partition asks the coordinator if a transaction really includes it before it takes the transaction's records."),
    key("transaction.two.phase.commit.enable", BOOLEAN, "false", LOW, READ_ONLY, ACCEPTED, ANYTHING,
        "Whether producers may keep a transaction prepared for an outside coordinator."),
    key("transaction.state.log.num.partitions", INT, "50", HIGH, READ_ONLY, ACCEPTED, at_least(1),
        "Partitions of the topic that keeps the state of transactions."),
    key("transaction.state.log.replication.factor", SHORT, "3", HIGH, READ_ONLY, ACCEPTED, at_least(1), "Replicas of that topic."),
    key("transaction.state.log.min.isr", INT, "2", HIGH, READ_ONLY, ACCEPTED, at_least(1), "How many replicas of that topic must be in sync for a write."),
    key("transaction.state.log.segment.bytes", INT, "104857600", HIGH, READ_ONLY, ACCEPTED, at_least(1), "Segment size of that topic."),
    key("transaction.state.log.load.buffer.size", INT, "5242880", HIGH, READ_ONLY, ACCEPTED, at_least(1),
        "How many bytes are read at a time when a coordinator loads its transactions."),
    key("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, "10000", LOW, READ_ONLY, ACCEPTED, at_least(1),
        "How often transactions that took too long are looked for and aborted."),
    key("transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000", LOW, READ_ONLY, ACCEPTED, at_least(1),
        "How often expired transactional ids are looked for."),
    key("transactional.id.expiration.ms", INT, "604800000", HIGH, READ_ONLY, ACCEPTED, at_least(1),
        "How long a transactional id without a transaction is remembered."),
    key("add.partitions.to.txn.retry.backoff.ms", INT, "20", HIGH, READ_ONLY, ACCEPTED, at_least(1),
        "First pause before a partition is added to a transaction again on the producer's behalf."),
    key("add.partitions.to.txn.retry.backoff.max.ms", INT, "100", HIGH, READ_ONLY, ACCEPTED, at_least(0), "The longest such pause."),
    key("producer.id.expiration.ms", INT, "86400000", LOW, CLUSTER_WIDE, ENFORCED, at_least(1),
        "How long a partition remembers the last sequence number of an idle producer."),
    key("producer.id.expiration.check.interval.ms", INT, "600000", LOW, READ_ONLY, ACCEPTED, at_least(1),
        "How often forgotten producers are looked for.", internal=True),
)
