"""Apache Kafka's own generated classes read our bytes as the same values and write them back unchanged: every
message, metadata record and coordinator record.

One JVM serves all tests, a line for each message (`jepsen/java/messages/Echo.java`).
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jepsen.java import short_lived
from jepsen.java.jars import POMS, jars
from kraft._tools.message_declarations import snake_case
from kraft.common.ids import uuid_from_text
from kraft.protocol.schema import Field, Message, Struct, fields_of
from tests.capabilities import require_capability
from tests.properties.protocol_strategies import SOAK, examples, message_classes, messages, shares, versions

pytestmark = pytest.mark.java


class Kafka:
    """The JVM at the other end of two pipes."""

    def __init__(self) -> None:
        command = [
            "java",
            *short_lived.options("kafka"),
            "-Xmx512M",
            "-cp",
            f"{jars('kafka')}/*",
            str(POMS / "messages" / "Echo.java"),
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def echo(self, name: str, version: int, encoded: bytes) -> tuple[bytes, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{name}\t{version}\t{encoded.hex()}\n".encode())
        self.process.stdin.flush()
        answer, _, rest = self.process.stdout.readline().decode().rstrip("\n").partition("\t")
        assert answer != "error", f"{name} v{version}: {rest}"
        return bytes.fromhex(answer), json.loads(rest)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    require_capability("java17")
    require_capability("mvn")
    running = Kafka()
    yield running
    running.close()


def assert_same(ours: Any, theirs: Any, field: Field, version: int) -> None:
    """A field's value against Kafka's JSON of it."""
    if ours is None or theirs is None:
        assert ours is None, field.name
        assert theirs is None, field.name
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), field.name
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, field, version)
    elif isinstance(ours, Struct):
        assert_same_struct(ours, theirs, version)
    elif field.element_type == "uuid":
        assert ours == uuid_from_text(theirs), field.name
    elif field.element_type == "records":
        assert theirs == "", "Kafka's JSON leaves records out; that they are written back unchanged must do"
    elif field.element_type == "bytes":
        assert ours == base64.b64decode(theirs), field.name
    else:
        assert ours == theirs, field.name


def assert_same_struct(ours: Struct, theirs: dict[str, Any], version: int) -> None:
    """Kafka leaves tagged fields that have their default out of its JSON; so what is not there must be the default."""
    by_name = {snake_case(name[0].upper() + name[1:]): value for name, value in theirs.items()}
    carried = {field.name: field for field in fields_of(type(ours)) if field.present(version)}
    assert set(by_name) <= set(carried)
    for name, field in carried.items():
        if name in by_name:
            assert_same(getattr(ours, name), by_name[name], field, version)
        else:
            assert field.is_tagged(version), name
            assert getattr(ours, name) == getattr(type(ours)(), name), name


@shares(message_classes())
@given(data=st.data())
@examples(150)
def test_kafka_reads_the_same_values_and_writes_the_same_bytes(
    kafka: Kafka, classes: list[type[Message]], data: st.DataObject
) -> None:
    cls = data.draw(st.sampled_from(classes))
    for version in versions(cls) if SOAK else [data.draw(st.sampled_from(versions(cls)))]:
        message = data.draw(messages(cls, version))
        encoded = message.encode(version)
        written, values = kafka.echo(cls.__name__, version, encoded)
        assert written == encoded
        assert_same_struct(message, values, version)
