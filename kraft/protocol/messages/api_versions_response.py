"""ApiVersionsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ApiVersion(Struct):
    __slots__ = ("api_key", "min_version", "max_version", "unknown_tags")
    SCHEMA = """
    api_key: int16 0+ key
    min_version: int16 0+
    max_version: int16 0+
    """

    def __init__(
        self,
        *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version
        self.unknown_tags = unknown_tags


class SupportedFeatureKey(Struct):
    __slots__ = ("name", "min_version", "max_version", "unknown_tags")
    SCHEMA = """
    name: string 3+ key
    min_version: int16 3+
    max_version: int16 3+
    """

    def __init__(
        self,
        *,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version
        self.unknown_tags = unknown_tags


class FinalizedFeatureKey(Struct):
    __slots__ = ("name", "max_version_level", "min_version_level", "unknown_tags")
    SCHEMA = """
    name: string 3+ key
    max_version_level: int16 3+
    min_version_level: int16 3+
    """

    def __init__(
        self,
        *,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level
        self.unknown_tags = unknown_tags


class ApiVersionsResponse(Message):
    __slots__ = ("error_code", "api_keys", "throttle_time_ms", "supported_features", "finalized_features_epoch", "finalized_features", "zk_migration_ready", "unknown_tags")
    API_KEY = 18
    VALID_VERSIONS = (0, 5)
    FLEXIBLE_VERSIONS = (3, 5)
    SCHEMA = """
    error_code: int16 0+
    api_keys: []ApiVersion 0+
    throttle_time_ms: int32 1+ ignorable
    supported_features: []SupportedFeatureKey 3+ tag=0@3+ ignorable
    finalized_features_epoch: int64 3+ tag=1@3+ default=-1 ignorable
    finalized_features: []FinalizedFeatureKey 3+ tag=2@3+ ignorable
    zk_migration_ready: bool 3+ tag=3@3+ default=false ignorable
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: list[ApiVersion] | tuple[ApiVersion, ...] = (),
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] | tuple[SupportedFeatureKey, ...] = (),
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] | tuple[FinalizedFeatureKey, ...] = (),
        zk_migration_ready: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.api_keys: list[ApiVersion] = list(api_keys) if isinstance(api_keys, tuple) else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features: list[SupportedFeatureKey] = list(supported_features) if isinstance(supported_features, tuple) else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features: list[FinalizedFeatureKey] = list(finalized_features) if isinstance(finalized_features, tuple) else finalized_features
        self.zk_migration_ready = zk_migration_ready
        self.unknown_tags = unknown_tags
