"""Profiles: a name for a cluster wins over the environment, an option wins over a name, and a bad file is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.cli.admin.app import main
from kraft.cli.admin.profile_file import VARIABLES, Profiles, profiles_path, read_profiles, write_profiles
from kraft.common.errors import ConfigurationError


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("KRAFT_")]:
        monkeypatch.delenv(name)
    path = tmp_path / "folder" / "profiles.toml"
    monkeypatch.setenv("KRAFT_PROFILES", str(path))
    return path


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Where a command looked for a node, or why it did not."""
    assert main([*arguments, "topics", "list", "--timeout", "0.1"]) == 1
    return capsys.readouterr().err


def test_a_profile_is_created_shown_used_and_removed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles", "set", "prod", "bootstrap-server=127.0.0.1:1", "admin=http://127.0.0.1:2"]) == 0
    assert main(["profiles", "set", "prod", "admin=", "command-config=relative"]) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    capsys.readouterr()
    assert main(["profiles", "list", "-o", "json"]) == 0
    wanted = {"name": "prod", "bootstrap-server": "127.0.0.1:1", "command-config": str(Path("relative").absolute())}
    assert json.loads(capsys.readouterr().out) == {"file": str(file), "profiles": [wanted]}
    assert main(["profiles", "set", "prod", "command-config="]) == 0
    assert "127.0.0.1:1 " in refusal(capsys, "--profile", "prod")
    assert main(["profiles", "remove", "prod"]) == 0
    assert main(["profiles", "remove", "prod"]) == 3
    assert read_profiles(file) == {}


def test_a_named_profile_overrides_the_environment_and_an_option_overrides_the_profile(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_profiles(file, {"prod": {"bootstrap-server": "127.0.0.1:1"}})
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVER", "127.0.0.1:2")
    monkeypatch.setenv("KRAFT_COMMAND_CONFIG", "/no/such/file")
    assert "127.0.0.1:1 " in refusal(capsys, "--profile", "prod")
    assert os.environ["KRAFT_BOOTSTRAP_SERVER"] == "127.0.0.1:2"
    assert os.environ["KRAFT_COMMAND_CONFIG"] == "/no/such/file"
    monkeypatch.setenv("KRAFT_PROFILE", "prod")
    assert "127.0.0.1:1 " in refusal(capsys)
    assert main(["topics", "list", "--timeout", "0.1", "-b", "127.0.0.1:3"]) == 1
    assert "127.0.0.1:3 " in capsys.readouterr().err


def test_an_unknown_profile_sends_no_request(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no 'prod'" in refusal(capsys, "--profile", "prod")
    write_profiles(file, {"test": {}})
    assert "which has test" in refusal(capsys, "--profile", "prod")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1", "a is outside of a profile"),
        ("[p]\nport = '1'", "[p] port: unknown"),
        ("[p]\nadmin = 1", "[p] admin: not a text"),
        ("[p", "profiles.toml"),
        ("x" * (1 << 20) + "y", "more than 1048576 bytes"),
    ],
)
def test_an_invalid_profile_file_is_rejected(file: Path, text: str, said: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(ConfigurationError, match=r".") as refused:
        read_profiles(file)
    assert said in "\n".join(refused.value.problems)


def test_a_profile_file_writable_by_others_is_rejected(file: Path) -> None:
    write_profiles(file, {"p": {}})
    file.chmod(0o622)
    with pytest.raises(ConfigurationError) as refused:
        read_profiles(file)
    assert "chmod 600" in refused.value.problems[0]


@pytest.mark.parametrize("setting", ["port=1", "bootstrap-server=nowhere:x"])
def test_an_invalid_profile_setting_is_wrong_usage(file: Path, setting: str) -> None:
    assert main(["profiles", "set", "p", setting]) == 2
    assert not file.exists()


def test_the_profile_file_is_found_by_its_variable_then_xdg_config_home_then_the_home_directory() -> None:
    assert profiles_path({"KRAFT_PROFILES": "/a/b"}) == Path("/a/b")
    assert profiles_path({"XDG_CONFIG_HOME": "/c"}) == Path("/c/kraft/profiles.toml")
    assert profiles_path({}) == Path.home() / ".config/kraft/profiles.toml"


@given(st.dictionaries(st.text(max_size=5), st.dictionaries(st.sampled_from(sorted(VARIABLES)), st.text(max_size=9))))
def test_a_written_profile_is_read_back(tmp_path_factory: pytest.TempPathFactory, profiles: Profiles) -> None:
    path = tmp_path_factory.getbasetemp() / "written.toml"
    write_profiles(path, profiles)
    assert read_profiles(path) == profiles
