"""Configuration entries and their alteration."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, Field

from kraft_http.models.common import Body, Collection, Resource


class ConfigSynonymData(BaseModel):
    name: str
    value: str | None
    source: str


class ConfigData(Resource):
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str = Field(examples=["DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"])
    synonyms: list[ConfigSynonymData]
    type: str | None = Field(default=None, examples=["LONG"])
    documentation: str | None = None


class TopicConfigData(ConfigData):
    topic_name: str


class TopicConfigDataList(Collection):
    data: list[TopicConfigData]


class BrokerConfigData(ConfigData):
    broker_id: int


class BrokerConfigDataList(Collection):
    data: list[BrokerConfigData]


class ClusterConfigData(ConfigData):
    config_type: str


class ClusterConfigDataList(Collection):
    data: list[ClusterConfigData]


class GroupConfigData(ConfigData):
    consumer_group_id: str


class GroupConfigDataList(Collection):
    data: list[GroupConfigData]


class AlterOperation(StrEnum):
    SET = "SET"
    DELETE = "DELETE"
    APPEND = "APPEND"
    SUBTRACT = "SUBTRACT"


class AlterConfigEntry(Body):
    name: str = Field(min_length=1, examples=["cleanup.policy"])
    value: str | None = Field(default=None, examples=["compact"])
    operation: AlterOperation | None = Field(
        default=None, description="Default: SET. APPEND and SUBTRACT are for lists."
    )


class AlterConfigsBody(Body):
    data: list[AlterConfigEntry]
    validate_only: bool = False


class UpdateConfigBody(Body):
    value: str | None = Field(default=None, examples=["compact"])
