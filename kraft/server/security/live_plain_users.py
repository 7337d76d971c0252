"""Users of PLAIN follow the dynamic configuration of their node (`listener.name.<listener>.plain.sasl.jaas.config`)."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.logging import Logger
from kraft.metadata.image.configs_image import ConfigsImage
from kraft.metadata.publisher import MetadataUpdate
from kraft.security.sasl.plain_users import PlainUsers, changed_users, plain_key


class LivePlainUsers:
    """A metadata publisher. An invalid value is logged and changes nothing: the previous users stay. If the key is
    deleted, the users of the node's start are restored."""

    def __init__(self, static: NodeConfig, users: Mapping[str, PlainUsers], log: Logger) -> None:
        """`users` are those of the node's start, by listener."""
        self._static = static
        self._users = users
        self._at_start = {listener: dict(each) for listener, each in users.items()}
        self._texts: dict[str, str | None] = {}
        self._log = log
        self._seen: ConfigsImage | None = None

    def publish(self, update: MetadataUpdate) -> None:
        """See `kraft.metadata.publisher.MetadataPublisher`. Values of config providers are read when the key
        changes."""
        if update.image.configs is self._seen:
            return
        self._seen = update.image.configs
        own = update.image.configs.broker(self._static.node_id)
        for listener, users in self._users.items():
            text = own.get(plain_key(listener))
            if text == self._texts.get(listener):
                continue
            self._texts[listener] = text
            self._take(listener, users, text)

    def _take(self, listener: str, users: PlainUsers, text: str | None) -> None:
        try:
            fresh = self._at_start[listener] if text is None else changed_users(self._static, listener, text)
        except ValueError as problem:
            self._log.error(
                "changed PLAIN users are invalid: the previous users stay in force",
                listener=listener,
                reason=str(problem),
            )
            return
        users.take(fresh)
        self._log.info("PLAIN users reloaded", listener=listener, users=len(fresh))
