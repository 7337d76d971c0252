"""UpdateFeaturesRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class FeatureUpdateKey(Struct):
    __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type", "unknown_tags")
    SCHEMA = """
    feature: string 0+ key
    max_version_level: int16 0+
    allow_downgrade: bool 0
    upgrade_type: int8 1+ default=1
    """

    def __init__(
        self,
        *,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,
        upgrade_type: int = 1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type
        self.unknown_tags = unknown_tags


class UpdateFeaturesRequest(Message):
    __slots__ = ("timeout_ms", "feature_updates", "validate_only", "unknown_tags")
    API_KEY = 57
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (0, 2)
    SCHEMA = """
    timeout_ms: int32 0+ default=60000
    feature_updates: []FeatureUpdateKey 0+
    validate_only: bool 1+ default=false
    """

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: list[FeatureUpdateKey] | tuple[FeatureUpdateKey, ...] = (),
        validate_only: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates: list[FeatureUpdateKey] = list(feature_updates) if isinstance(feature_updates, tuple) else feature_updates
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags
