"""Users of PLAIN follow the metadata of a node."""

from __future__ import annotations

from typing import Any

from kraft.common.config.node.layers import ConfigFile
from kraft.common.config.node.node_loader import load_node_config
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.publisher import MetadataUpdate
from kraft.metadata.records.config_record import ConfigRecord
from kraft.security.sasl.jaas import PLAIN_MODULE
from kraft.security.sasl.plain_users import PlainUsers, plain_key
from kraft.server.security.live_plain_users import LivePlainUsers

NODE = f"""\
listeners=CLIENTS://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENTS
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
{plain_key("CLIENTS")}={PLAIN_MODULE} required username="n" password="n" user_n="n";
"""


class Told:
    """A log that keeps its events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    error = info


def test_plain_users_are_reloaded_when_the_key_changes_and_kept_when_the_new_value_is_invalid() -> None:
    log, users = Told(), PlainUsers({"n": "n"})
    config = load_node_config(files=[ConfigFile("n.properties", NODE)])
    live = LivePlainUsers(config, {"CLIENTS": users}, log)  # type: ignore[arg-type]
    image = MetadataImage()

    def set_to(value: str | None, node: str = "1") -> dict[str, str]:
        nonlocal image
        record = ConfigRecord(resource_type=4, resource_name=node, name=plain_key("CLIENTS"), value=value)
        image, _ = image.replay_batch([record])
        live.publish(MetadataUpdate(image, MetadataChanges.between(image, image), 1, 1, 0, 1, False))
        return dict(users)

    assert set_to(f'{PLAIN_MODULE} required user_n="n" user_bob="secret";') == {"n": "n", "bob": "secret"}
    assert set_to(f'{PLAIN_MODULE} required user_eve="e";', node="2") == {"n": "n", "bob": "secret"}
    assert log.events == [("PLAIN users reloaded", {"listener": "CLIENTS", "users": 2})]
    assert set_to(f"{PLAIN_MODULE} required secret") == {"n": "n", "bob": "secret"}
    event, fields = log.events[-1]
    assert event == "changed PLAIN users are invalid: the previous users stay in force"
    assert "secret" not in fields["reason"]
    assert set_to(f"{PLAIN_MODULE} required;") == {}
    assert set_to(None) == {"n": "n"}
