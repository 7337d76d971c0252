"""Which log directories a value of `cordoned.log.dirs` means, and which values are rejected."""

from __future__ import annotations

import pytest

from kraft.common.config.node.cordons import Cordons, cordons, cordons_complaint
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import Surroundings, load_node_config


def node(*sets: str) -> NodeConfig:
    return load_node_config(sets=sets, surroundings=Surroundings(working_directory="/srv", host_name="here.example"))


def of(text: str) -> Cordons:
    return cordons(node("log.dirs=one,/two", f"cordoned.log.dirs={text}"))


@pytest.mark.parametrize(
    ("text", "directories"),
    [("", ()), ("*", ("/srv/one", "/two")), ("one", ("/srv/one",)), ("/srv/one", ("/srv/one",)), ("/two/", ("/two",))],
)
def test_an_entry_is_a_path_of_log_dirs_or_its_absolute_path(text: str, directories: tuple[str, ...]) -> None:
    assert of(text) == (frozenset(directories), ())


def test_log_dir_counts_where_log_dirs_is_not_set() -> None:
    assert cordons(node("log.dir=data", "cordoned.log.dirs=data")).directories == {"/srv/data"}


def test_an_entry_without_a_directory_has_no_effect() -> None:
    """A dynamic value outlives a change of log.dirs."""
    config = node("log.dirs=/two").with_dynamic({}, {"cordoned.log.dirs": "/gone,/two"})
    assert cordons(config) == (frozenset(("/two",)), ("/gone",))


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ((), None),
        (("*",), None),
        (("one", "/two"), None),
        (("*", "/two"), "When cordoned.log.dirs is set to *, it must not contain other values"),
        (
            ("/three", "/two", "four"),
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : /three, four",
        ),
    ],
)
def test_only_directories_of_the_broker_can_be_cordoned(entries: tuple[str, ...], complaint: str | None) -> None:
    assert cordons_complaint(entries, node("log.dirs=one,/two")) == complaint


def test_a_controller_alone_may_have_any_value() -> None:
    config = node("process.roles=controller", "listeners=CONTROLLER://h:9093", "cordoned.log.dirs=/else")
    assert cordons(config).unknown == ("/else",)
