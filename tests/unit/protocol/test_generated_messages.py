"""The committed declarations are what the generator writes from Kafka's schemas."""

import json
from pathlib import Path

import pytest

from jepsen.java.jars import jars
from kraft._tools.generate_messages import COORDINATOR_RECORDS, MESSAGES, METADATA_RECORDS, PACKAGE_OF_JAR, generate
from kraft._tools.message_declarations import FieldDeclaration, parse_schema, snake_case
from tests.capabilities import require_capability

ROOT = Path(__file__).resolve().parents[3]
HAND_WRITTEN = {f"{package}/__init__.py" for package in (MESSAGES, METADATA_RECORDS, COORDINATOR_RECORDS)}
HAND_WRITTEN |= {f"{METADATA_RECORDS}/serde.py", f"{COORDINATOR_RECORDS}/serde.py"}


@pytest.mark.java
def test_the_generated_declarations_match_the_schemas() -> None:
    require_capability("java17")
    require_capability("mvn")
    schemas = jars("kafka")
    expected = generate(schemas)
    packages = [ROOT / package for package in (MESSAGES, METADATA_RECORDS, COORDINATOR_RECORDS)]
    present = {str(path.relative_to(ROOT)) for package in packages for path in package.glob("*.py")} - HAND_WRITTEN
    assert present == set(expected)
    changed = [name for name, text in expected.items() if (ROOT / name).read_text() != text]
    assert not changed, "run python -m kraft._tools.generate_messages (docs/testing.md)"


@pytest.mark.parametrize(
    ("schema_name", "python_name"),
    [
        ("TimeoutMs", "timeout_ms"),
        ("leaderEpoch", "leader_epoch"),
        ("KRaftVersionRecord", "kraft_version_record"),
        ("ISR", "isr"),
        ("ACLs", "ac_ls"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
        ("DescribeUserScramCredentialsRequest", "describe_user_scram_credentials_request"),
    ],
)
def test_names_become_snake_case(schema_name: str, python_name: str) -> None:
    assert snake_case(schema_name) == python_name


@pytest.mark.parametrize("name", ["Class", "Decode", "UnknownTags"])
def test_a_field_name_reserved_by_python_or_the_base_class_is_an_error(name: str) -> None:
    with pytest.raises(SystemExit, match="no usable Python name"):
        snake_case(name)


def test_comments_are_stripped_but_not_inside_strings() -> None:
    text = '// Licence.\n{\n  // A remark with "quotes".\n  "name": "a//b", // The end.\n  "type": "data"\n}'
    assert parse_schema(text) == {"name": "a//b", "type": "data"}


def declared(**source: object) -> FieldDeclaration:
    return FieldDeclaration.of({"name": "Value", "type": "int32", "versions": "0+", **source})


def test_a_json_null_is_no_default_and_the_text_null_is() -> None:
    null = {"type": "[]int32", "nullableVersions": "0+"}
    assert declared(**null, default=json.loads("null")).parameter() == "value: list[int] | tuple[int, ...] | None = ()"
    assert declared(**null, default="null").parameter() == "value: list[int] | None = None"


def test_a_field_without_versions_has_the_versions_of_its_tag() -> None:
    field = FieldDeclaration.of({"name": "Value", "type": "int64", "taggedVersions": "1+", "tag": 2, "default": -1})
    assert field.declaration() == "value: int64 1+ tag=2@1+ default=-1"


def test_defaults_are_python_literals() -> None:
    assert declared(default="0x7fffffff").parameter() == "value: int = 2147483647"
    assert declared(type="bool", default="true").parameter() == "value: bool = True"
    assert declared(type="bool", default=False).parameter() == "value: bool = False"
    assert declared(type="string", default="x").parameter() == 'value: str = "x"'
    assert declared(type="string").parameter() == 'value: str = ""'
    assert declared(type="uuid").parameter() == "value: bytes = ZERO_UUID"
    assert declared(type="records").parameter() == "value: Bytes | None = None"
    assert declared(type="bytes", zeroCopy=True).parameter() == 'value: Bytes = b""'
    assert declared(type="Nested").parameter() == "value: Nested | None = None"


def test_missing_schemas_are_named() -> None:
    with pytest.raises(FileNotFoundError, match=next(iter(PACKAGE_OF_JAR))):
        generate(ROOT / "docs")
