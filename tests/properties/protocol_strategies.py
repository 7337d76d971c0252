"""Messages for Hypothesis, drawn from the declarations that the codec is compiled from: any class, any of its
versions, the fields that the version carries."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import kraft.coordinator.records
import kraft.metadata.records
import kraft.protocol.messages
from kraft.protocol.schema import Field, Message, Struct, fields_of, flexible_in, struct_class

PACKAGES = (kraft.protocol.messages, kraft.metadata.records, kraft.coordinator.records)
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED_BITS = {"uint16": 16, "uint32": 32}

Special = Mapping[tuple[str, str], st.SearchStrategy[Any]]


@cache
def message_classes() -> tuple[type[Message], ...]:
    """Every generated message class, in order of package and name."""
    found = []
    for package in PACKAGES:
        for module_info in pkgutil.iter_modules(package.__path__):
            module = import_module(f"{package.__name__}.{module_info.name}")
            declared = [
                value
                for value in vars(module).values()
                if isinstance(value, type) and value.__module__ == module.__name__
            ]
            found += [value for value in declared if issubclass(value, Message)]
    return tuple(found)


SOAK = os.environ.get("KRAFT_SOAK") == "1"


def shares(classes: Sequence[type[Message]]) -> pytest.MarkDecorator:
    """Parametrize by `classes`. A run draws from all of them at once, so each run sees another part; a soak
    (KRAFT_SOAK=1) takes them one by one."""
    parts = [[cls] for cls in classes] if SOAK else [list(classes)]
    return pytest.mark.parametrize(
        "classes", parts, ids=[part[0].__name__ if len(part) == 1 else "any" for part in parts]
    )


def examples(count: int) -> settings:
    """`count` examples of all messages together, or a tenth as many of each one in a soak."""
    checks = [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.large_base_example,
    ]
    return settings(max_examples=count // 10 if SOAK else count, suppress_health_check=checks)


def versions(cls: type[Message]) -> range:
    low, high = cls.VALID_VERSIONS
    return range(low, high + 1)


def integers(bits: int) -> st.SearchStrategy[int]:
    """All values, the edges often."""
    edge = 1 << (bits - 1)
    return st.one_of(st.sampled_from([0, 1, -1, 127, -128, edge - 1, -edge]), st.integers(-edge, edge - 1))


def texts() -> st.SearchStrategy[str]:
    """Short ones, and some around the lengths at which a varint grows."""
    return st.one_of(
        st.text(max_size=6), st.sampled_from(["", "x" * 126, "x" * 127, "x" * 128, "ü" * 64, "x" * 16383, "x" * 32767])
    )


def blobs() -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.binary(max_size=6), st.sampled_from([b"", b"x" * 126, b"x" * 127, b"x" * 16382, b"x" * 16383, b"x" * 70000])
    )


def scalar(kind: str) -> st.SearchStrategy[Any]:
    if kind in BITS:
        return integers(BITS[kind])
    if kind in UNSIGNED_BITS:
        return st.integers(0, (1 << UNSIGNED_BITS[kind]) - 1)
    if kind == "bool":
        return st.booleans()
    if kind == "float64":
        return st.floats(allow_nan=False, allow_infinity=False)
    if kind == "uuid":
        return st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16))
    return texts() if kind == "string" else blobs()


def unknown_tags() -> st.SearchStrategy[dict[int, bytes] | None]:
    """Tags that no schema defines."""
    return st.one_of(
        st.none(),
        st.dictionaries(
            st.sampled_from([90, 127, 128, 20000, 0x7FFFFFFE]), st.binary(max_size=4), min_size=1, max_size=3
        ),
    )


def structs(
    cls: type[Struct], version: int, *, flexible: bool, tags: bool, special: Special, owner: type[Struct]
) -> st.SearchStrategy[Any]:
    carried = [field for field in fields_of(cls) if field.present(version)]
    parts = {
        field.name: values(field, version, flexible=flexible, tags=tags, special=special, owner=owner, struct=cls)
        for field in carried
    }
    if flexible and tags:
        parts["unknown_tags"] = unknown_tags()
    return st.fixed_dictionaries(parts).map(lambda drawn: cls(**drawn))


def values(
    field: Field,
    version: int,
    *,
    flexible: bool,
    tags: bool,
    special: Special,
    owner: type[Struct],
    struct: type[Struct],
) -> st.SearchStrategy[Any]:
    """What the field may hold in this version. A tagged struct equal to its default counts as absent, which is None,
    so it is drawn as None."""
    if field.is_struct:
        nested = struct_class(owner, field.element_type)
        element = structs(nested, version, flexible=flexible, tags=tags, special=special, owner=owner)
        if not field.is_array and field.is_tagged(version) and not field.null_allowed(version):
            return st.one_of(st.none(), element.map(lambda drawn: None if drawn == nested() else drawn))
    else:
        drawn_specially = special.get((struct.__name__, field.name))
        element = scalar(field.element_type) if drawn_specially is None else drawn_specially
    made = (
        st.lists(element, max_size=2)
        if field.is_struct
        else st.lists(element, max_size=20)
        if field.element_type in BITS
        else st.lists(element, max_size=3)
    )
    strategy = made if field.is_array else element
    return st.one_of(st.none(), strategy) if field.null_allowed(version) else strategy


def messages(
    cls: type[Message], version: int, *, tags: bool = True, special: Special | None = None
) -> st.SearchStrategy[Any]:
    """Messages of `cls` that `version` can carry; `special` replaces the strategy of a (struct, field)."""
    return structs(cls, version, flexible=flexible_in(cls, version), tags=tags, special=special or {}, owner=cls)


def versioned_messages(cls: type[Message], **options: Any) -> st.SearchStrategy[tuple[int, Any]]:
    return st.sampled_from(versions(cls)).flatmap(
        lambda version: st.tuples(st.just(version), messages(cls, version, **options))
    )
