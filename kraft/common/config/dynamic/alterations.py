"""The checks of configuration changes, and their results. Pure. Rejections are ApiErrors with Kafka's codes and
messages.

As in Kafka a change is checked twice. The broker's `check_request` sees one resource of a request, and for a broker's
own keys knows the current values. The controller's `altered` and `check_texts` apply the operations to the resource's
texts, and check the result as a whole. Only `None` in a result deletes a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kraft.common.broker_state import DESIRED_STATE
from kraft.common.config.definition import ConfigKey, Status, UpdateMode
from kraft.common.config.dynamic.client_metrics import check_subscription
from kraft.common.config.dynamic.group_config import check_group
from kraft.common.config.dynamic.loss_reports import election_of_loss, is_report_key, parse_loss
from kraft.common.config.dynamic.topic_config import effective_topic_config
from kraft.common.config.endpoints import PER_IP_OVERRIDES, host_counts
from kraft.common.config.node.cordons import CORDONED_LOG_DIRS, cordons_complaint
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resource_type import ResourceType
from kraft.common.config.resources import (
    LOG_LEVELS,
    RESOURCE_TYPE_NAMES,
    SASL_KEYS,
    TLS_KEYS,
    broker_key,
    keys_of,
    listener_base,
)
from kraft.common.config.types import ConfigType, split_list
from kraft.common.errors import ApiError

FOLLOWS_RETENTION: Final = -2
"""Value of local.retention.*: the same as retention.*."""
ABOUT_ANY_BROKER: Final = frozenset(
    (DESIRED_STATE, "leader.replication.throttled.rate", "follower.replication.throttled.rate")
)
"""Broker keys that any broker accepts, because the broker itself may be down. Apache Kafka requires the broker
itself."""
INVALID_CONFIG: Final = 40
INVALID_REQUEST: Final = 42


class Operation:
    """Operation codes on the wire (AlterConfigOp.OpType)."""

    SET: Final = 0
    DELETE: Final = 1
    APPEND: Final = 2
    SUBTRACT: Final = 3


OPERATION_NAMES: Final = ("SET", "DELETE", "APPEND", "SUBTRACT")


class Alteration(NamedTuple):
    name: str
    operation: int
    value: str | None


_THREAD_KEYS: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
"""Numbers of threads. As in Kafka, one change may at most double or halve them."""


_READ_AT_START: Final = (
    "config.providers",
    "listener.security.protocol.map",
    "listeners",
    "remote.fetch.max.wait.ms",
    "remote.list.offsets.request.timeout.ms",
    "remote.log.index.file.cache.total.size.bytes",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.reader.threads",
)
"""Keys that can be changed at run time in Kafka, but are read only at the start here."""


def check_request(
    resource_type: int, resource_name: str, alterations: Sequence[Alteration], broker: NodeConfig
) -> None:
    """The broker's check of one resource. `broker` is its configuration with dynamic values. Raises ApiError."""
    if resource_type not in RESOURCE_TYPE_NAMES or resource_type == ResourceType.UNKNOWN:
        raise ApiError(INVALID_REQUEST, f"Unknown resource type {resource_type}")
    names = [alteration.name for alteration in alterations]
    if len(dict.fromkeys(names)) != len(names):
        raise ApiError(INVALID_REQUEST, "Error due to duplicate config keys")
    null = [
        alteration.name
        for alteration in alterations
        if alteration.value is None and alteration.operation != Operation.DELETE
    ]
    if null:
        raise ApiError(INVALID_REQUEST, f"Null value not supported for : {', '.join(null)}")
    if resource_type in (ResourceType.TOPIC, ResourceType.GROUP) and not resource_name:
        raise ApiError(
            INVALID_REQUEST, f"Default {RESOURCE_TYPE_NAMES[resource_type].lower()} resources are not allowed."
        )
    if resource_type == ResourceType.BROKER:
        if not names or not ABOUT_ANY_BROKER.issuperset(names):
            _check_broker_id(resource_name, broker.node_id)
        _check_broker_keys(resource_name, alterations, broker)


def check_cordons(alterations: Sequence[Alteration], current: Mapping[str, str], broker: NodeConfig) -> None:
    """The broker's check of its own `cordoned.log.dirs`, of which `current` has the dynamic text: it may name only
    log directories of the broker. Raises ApiError."""
    own = [alteration for alteration in alterations if alteration.name == CORDONED_LOG_DIRS]
    for text in altered(ResourceType.BROKER, current, own).values():
        complaint = cordons_complaint(split_list(text or ""), broker)
        if complaint is not None:
            raise ApiError(INVALID_REQUEST, complaint)


def _check_broker_id(resource_name: str, node_id: int) -> None:
    if not resource_name:
        return
    try:
        wanted = int(resource_name)
    except ValueError:
        raise ApiError(INVALID_REQUEST, f"Node id must be an integer, but it is: {resource_name}") from None
    if wanted != node_id:
        raise ApiError(INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {wanted}")


def _check_broker_keys(resource_name: str, alterations: Sequence[Alteration], broker: NodeConfig) -> None:
    rows = {alteration.name: broker_key(alteration.name) for alteration in alterations}
    unknown = [name for name, row in rows.items() if row is None]
    if unknown:
        raise ApiError(INVALID_CONFIG, f"Unknown broker config name: {', '.join(unknown)}")
    known = {name: row for name, row in rows.items() if row is not None}
    fixed = [name for name, row in known.items() if row.update_mode == UpdateMode.READ_ONLY]
    if fixed:
        raise ApiError(INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    single = [name for name, row in known.items() if row.update_mode == UpdateMode.PER_BROKER]
    if single and not resource_name:
        raise ApiError(
            INVALID_REQUEST,
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(single)}]",
        )
    for alteration in alterations:
        if alteration.operation == Operation.SET and alteration.value is not None:
            complaint = known[alteration.name].validate(alteration.value)
            if complaint:
                raise ApiError(INVALID_REQUEST, complaint)
            if alteration.name in _THREAD_KEYS:
                _check_threads(alteration.name, int(alteration.value), broker.integer(alteration.name))
            if alteration.name == "log.cleaner.threads":
                _check_cleaner_threads(int(alteration.value), broker.integer(alteration.name))
            _check_effect(known[alteration.name], alteration.value, broker)


def _check_effect(row: ConfigKey, text: str, broker: NodeConfig) -> None:
    """Reject a change that would be shown but have no effect. Setting the current value again is allowed."""
    if (listener_base(row.name) or row.name) in TLS_KEYS:
        reason = (
            "set it in the broker's configuration and restart the broker. To renew keys, replace the files: they are "
            "read again when they change."
        )
    elif row.name in _READ_AT_START or ((listener_base(row.name) or row.name) in SASL_KEYS and not _is_live(row.name)):
        reason = "it is read when the broker starts. Set it in the broker's configuration and restart the broker."
    elif row.status == Status.ACCEPTED:
        reason = "it has no effect here. It is accepted at start for configurations that were written for Apache Kafka."
    else:
        return
    if row.parse(text) != broker.values.get(row.name):
        raise ApiError(INVALID_REQUEST, f"{row.name} cannot be changed while the broker runs: {reason}")


def _is_live(name: str) -> bool:
    """Whether the key holds users of PLAIN, which change while the broker runs. Their owner checks the text."""
    return name.startswith("listener.name.") and name.endswith(".plain.sasl.jaas.config")


def _check_threads(name: str, wanted: int, current: int) -> None:
    prefix = f"Dynamic thread count update validation failed for {name}={wanted}"
    if wanted > current * 2:
        raise ApiError(
            INVALID_REQUEST, f"{prefix}, value should not be greater than double the current value {current}"
        )
    if wanted < current // 2:
        raise ApiError(INVALID_REQUEST, f"{prefix}, value should be at least half the current value {current}")


def _check_cleaner_threads(wanted: int, current: int) -> None:
    """Kafka's rule for the number of log cleaner threads, with its message."""
    what = ""
    if wanted < 1:
        what = "should be at least 1"
    elif wanted < current // 2:
        what = f"cannot be reduced to less than half the current value {current}"
    elif wanted > current * 2:
        what = f"cannot be increased to more than double the current value {current}"
    if what:
        raise ApiError(INVALID_REQUEST, f"Log cleaner threads {what}")


def altered(resource_type: int, current: Mapping[str, str], alterations: Sequence[Alteration]) -> dict[str, str | None]:
    """The new text of each key that the operations change, None for a deleted one. Keys whose text is unchanged are
    left out. Raises ApiError."""
    changes: dict[str, str | None] = {}
    for name, operation, value in alterations:
        before = current.get(name)
        after = _operate(resource_type, name, operation, value, before)
        if after != before:
            changes[name] = after
    return changes


def _operate(resource_type: int, name: str, operation: int, value: str | None, before: str | None) -> str | None:
    if operation == Operation.SET:
        return None if value is None else value.strip()
    if operation == Operation.DELETE:
        return None
    if operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise ApiError(INVALID_REQUEST, f"Unknown operation type {operation}")
    key = keys_of(resource_type).get(name)
    if key is None or key.type != ConfigType.LIST:
        raise ApiError(
            INVALID_CONFIG, f"Can't {OPERATION_NAMES[operation]} to key {name} because its type is not LIST."
        )
    elements = list(split_list(before if before is not None else key.default_canonical_text or ""))
    for element in split_list(value or ""):
        if operation == Operation.APPEND and element not in elements:
            elements.append(element)
        elif operation == Operation.SUBTRACT and element in elements:
            elements.remove(element)
    return ",".join(elements)


def replaced(current: Mapping[str, str], replacement: Mapping[str, str]) -> dict[str, str | None]:
    """The changes of AlterConfigs, after which only the given texts remain. Reports of unclean elections also remain,
    since clients cannot see them. Keys whose text is unchanged are left out."""
    changes: dict[str, str | None] = {name: text for name, text in replacement.items() if current.get(name) != text}
    changes.update({name: None for name in current if name not in replacement and not is_report_key(name)})
    return changes


def applied(current: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """`current` with `changes` applied."""
    merged: dict[str, str | None] = {**current, **changes}
    return {name: text for name, text in merged.items() if text is not None}


def check_texts(resource_type: int, resource_name: str, texts: Mapping[str, str], broker: NodeConfig) -> None:
    """The controller's check: whether a resource may have exactly these texts, also at its creation. Raises
    ApiError."""
    if resource_type == ResourceType.TOPIC:
        check_topic_texts(texts)
        _check_tiering(texts, broker)
    elif resource_type == ResourceType.BROKER:
        if resource_name:
            try:
                int(resource_name)
            except ValueError:
                raise ApiError(INVALID_REQUEST, "Unable to parse broker name as a base 10 number.") from None
        _check_each(broker_key, texts, "broker")
        wrong = host_counts(texts.get(PER_IP_OVERRIDES, ""))[1]
        if wrong:
            raise ApiError(
                INVALID_CONFIG,
                (
                    f"Invalid value {texts[PER_IP_OVERRIDES]} for configuration {PER_IP_OVERRIDES}: {wrong[0]!r} "
                    "is not host:count"
                ),
            )
    elif resource_type == ResourceType.CLIENT_METRICS:
        check_subscription(resource_name, texts)
    elif resource_type == ResourceType.GROUP:
        _check_each(keys_of(ResourceType.GROUP).get, texts, "group")
        check_group(texts, broker)
    else:
        raise ApiError(INVALID_REQUEST, f"Unknown resource type {resource_type}")


def check_has_effect(resource_type: int, changes: Mapping[str, str | None]) -> None:
    """Reject keys of unsupported functions, unless they are deleted or set to their default: they would be shown but
    have no effect. Existing texts stay. Raises ApiError."""
    what = {
        ResourceType.GROUP: "this release does not use the key",
        ResourceType.TOPIC: "segments always grow as they are written",
    }.get(resource_type)
    if what is None:
        return
    rows = keys_of(resource_type)
    for name, text in changes.items():
        row = rows.get(name)
        if text is not None and row is not None and row.status == Status.ACCEPTED and not row.is_default(text):
            raise ApiError(INVALID_CONFIG, f"{name}={text} would have no effect: {what}")


def check_topic_texts(texts: Mapping[str, str]) -> None:
    """Check names, values, and pairs of values. Raises ApiError INVALID_CONFIG."""
    keys = keys_of(ResourceType.TOPIC)
    _check_each(keys.get, {name: text for name, text in texts.items() if not is_report_key(name)}, "topic")
    low, high = (
        int(texts.get(name, keys[name].default_canonical_text or "0"))
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if low > high:
        raise ApiError(
            INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})",
        )


def _check_tiering(texts: Mapping[str, str], broker: NodeConfig) -> None:
    """Check the keys of tiered storage. Raises ApiError INVALID_CONFIG in the cases in which Kafka does."""
    values = effective_topic_config(texts, broker)
    if not values["remote.storage.enable"]:
        return
    if not broker.flag("remote.log.storage.system.enable"):
        raise ApiError(
            INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
            "storage. Set remote.log.storage.system.enable=true and kraft.remote.storage.uri on every node.",
        )
    policy = values["cleanup.policy"]
    if policy != ("delete",):
        raise ApiError(INVALID_CONFIG, "Remote log storage only supports topics with cleanup.policy=delete.")
    for kind in ("ms", "bytes"):
        local, whole = values[f"local.retention.{kind}"], values[f"retention.{kind}"]
        if isinstance(local, int) and isinstance(whole, int) and whole >= 0 and (local == -1 or local > whole):
            raise ApiError(
                INVALID_CONFIG,
                f"local.retention.{kind} ({local}) must not be more than retention.{kind} ({whole})",
            )
    for kind in ("ms", "bytes") if values["remote.log.copy.disable"] else ():
        if values[f"local.retention.{kind}"] not in (FOLLOWS_RETENTION, values[f"retention.{kind}"]):
            raise ApiError(
                INVALID_CONFIG,
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{kind}` and `retention.{kind}` "
                "must be set to the identical value because there will be no more logs copied to the remote storage.",
            )


def check_report(name: str, text: str, current: Mapping[str, str]) -> None:
    """Check a report key. Only the cluster writes reports. A broker may add to a topic's `current` texts only what a
    replica truncated after an election that is reported there.

    Raises ApiError INVALID_CONFIG.
    """
    if election_of_loss(name) not in current or parse_loss(text) is None:
        raise ApiError(INVALID_CONFIG, f"{name} is a report of the cluster: it can be deleted, not set.")


def _check_each(row_of: Callable[[str], ConfigKey | None], texts: Mapping[str, str], noun: str) -> None:
    for name, text in texts.items():
        key = row_of(name)
        if key is None:
            raise ApiError(INVALID_CONFIG, f"Unknown {noun} config name: {name}")
        complaint = key.validate(text)
        if complaint:
            raise ApiError(INVALID_CONFIG, complaint)
        if key.status == Status.REFUSED and not key.is_default(text):
            raise ApiError(INVALID_CONFIG, f"{name} is not served yet: {key.documentation}")


def check_logger_alterations(alterations: Sequence[Alteration], loggers: Sequence[str]) -> None:
    """Check changes of a BROKER_LOGGER resource: levels of existing loggers may be set and deleted. Raises ApiError."""
    for name, operation, value in alterations:
        if operation in (Operation.APPEND, Operation.SUBTRACT):
            raise ApiError(
                INVALID_REQUEST, f"{OPERATION_NAMES[operation]} operation is not allowed for the BROKER_LOGGER resource"
            )
        if name not in loggers:
            raise ApiError(INVALID_CONFIG, f"Logger {name} does not exist!")
        if operation == Operation.DELETE and name == "root":
            raise ApiError(INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
        if operation == Operation.SET and value not in LOG_LEVELS:
            valid = ", ".join(sorted(LOG_LEVELS))
            raise ApiError(
                INVALID_CONFIG,
                (
                    f"Cannot set the log level of {name} to {value} as it is not a supported log level. Valid log "
                    f"levels are {valid}"
                ),
            )
