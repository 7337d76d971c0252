"""BrokerRegistrationChangeRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class BrokerRegistrationChangeRecord(Message):
    __slots__ = ("broker_id", "broker_epoch", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs", "unknown_tags")
    API_KEY = 17
    VALID_VERSIONS = (0, 3)
    FLEXIBLE_VERSIONS = (0, 3)
    SCHEMA = """
    broker_id: int32 0+ entity=brokerId
    broker_epoch: int64 0+
    fenced: int8 0+ tag=0@0+
    in_controlled_shutdown: int8 1+ tag=1@1+
    log_dirs: []uuid 2+ tag=2@2+
    cordoned_log_dirs: []uuid 3+ nullable=3+ tag=3@3+ default=null
    """

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = 0,
        fenced: int = 0,
        in_controlled_shutdown: int = 0,
        log_dirs: list[bytes] | tuple[bytes, ...] = (),
        cordoned_log_dirs: list[bytes] | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs: list[bytes] = list(log_dirs) if isinstance(log_dirs, tuple) else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs
        self.unknown_tags = unknown_tags
