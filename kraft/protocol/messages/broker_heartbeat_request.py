"""BrokerHeartbeatRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class BrokerHeartbeatRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "current_metadata_offset", "want_fence", "want_shut_down", "offline_log_dirs", "cordoned_log_dirs", "unknown_tags")
    API_KEY = 63
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (0, 2)
    SCHEMA = """
    broker_id: int32 0+ entity=brokerId
    broker_epoch: int64 0+ default=-1
    current_metadata_offset: int64 0+
    want_fence: bool 0+
    want_shut_down: bool 0+
    offline_log_dirs: []uuid 1+ tag=0@1+
    cordoned_log_dirs: []uuid 2+ nullable=2+ tag=1@2+ default=null
    """

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: list[bytes] | tuple[bytes, ...] = (),
        cordoned_log_dirs: list[bytes] | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.current_metadata_offset = current_metadata_offset
        self.want_fence = want_fence
        self.want_shut_down = want_shut_down
        self.offline_log_dirs: list[bytes] = list(offline_log_dirs) if isinstance(offline_log_dirs, tuple) else offline_log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs
        self.unknown_tags = unknown_tags
