"""Dynamic configuration as in the log: values as text, by resource and key, neither parsed nor validated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kraft.common.broker_state import ACTIVE, DESIRED_STATE
from kraft.common.config.resource_type import ResourceType
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.records.config_record import ConfigRecord


class ConfigResource(NamedTuple):
    """A resource that can be configured. BROKER with an empty name stands for every broker of the cluster."""

    type: int
    name: str


EVERY_BROKER: Final = ConfigResource(ResourceType.BROKER, "")
NO_CONFIGS: Final[OrderedMap[str, str]] = OrderedMap()


@dataclass(frozen=True, slots=True)
class ConfigsImage:
    """Values as text, by resource and key. A resource without keys is absent."""

    resources: OrderedMap[ConfigResource, OrderedMap[str, str]] = field(default_factory=OrderedMap)

    def of(self, resource_type: int, name: str) -> OrderedMap[str, str]:
        return self.resources.get(ConfigResource(resource_type, name), NO_CONFIGS)

    def topic(self, name: str) -> OrderedMap[str, str]:
        return self.of(ResourceType.TOPIC, name)

    def broker(self, broker_id: int) -> OrderedMap[str, str]:
        return self.of(ResourceType.BROKER, str(broker_id))

    def desired_state(self, broker_id: int) -> str:
        """Return the state that an operator wants for a broker (`kraft.common.broker_state`)."""
        return self.broker(broker_id).get(DESIRED_STATE, ACTIVE)

    @property
    def cluster(self) -> OrderedMap[str, str]:
        return self.resources.get(EVERY_BROKER, NO_CONFIGS)

    def write(self) -> Iterator[Any]:
        for resource, configs in self.resources.items():
            for key, value in configs.items():
                yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=key, value=value)


class ConfigsDraft:
    __slots__ = ("_base", "_resources", "changed")

    def __init__(self, base: ConfigsImage) -> None:
        self._base = base
        self._resources = base.resources.mutate()
        self.changed: dict[ConfigResource, OrderedMap[str, str] | None] = {}

    def config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        configs = self._resources.get(resource, NO_CONFIGS)
        self.changed.setdefault(resource, self._base.resources.get(resource))
        after = configs.without(record.name) if record.value is None else configs.set(record.name, record.value)
        if after:
            self._resources[resource] = after
        else:
            self._resources.pop(resource, None)

    def remove_topic(self, name: str) -> None:
        """Remove the configuration of a deleted topic."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        if self._resources.get(resource) is not None:
            self.changed.setdefault(resource, self._base.resources.get(resource))
            self._resources.pop(resource, None)

    def finish(self) -> ConfigsImage:
        return ConfigsImage(OrderedMap(self._resources.finish()))
