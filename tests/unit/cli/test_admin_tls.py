"""The keys that the HTTP admin shows: none but its own, refused with a sentence, renewed with their files."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio

from kraft.cli import admin_tls as module
from kraft.cli.admin_tls import AdminTls, admin_tls
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ConfigurationError
from kraft.world.real import RealWorld
from tests.certificates import certificates


def configured(directory: Path, *sets: str) -> NodeConfig:
    certificates().write(directory)
    return load_node_config(sets=sets)


def test_listener_tls_keys_do_not_apply_to_the_admin(tmp_path: Path) -> None:
    config = configured(tmp_path, f"ssl.keystore.location={tmp_path}/node.pem", "ssl.client.auth=required")
    assert admin_tls(RealWorld(), config) is None
    assert config.admin_tls_values()["ssl.client.auth"] == "none"


def test_a_disabled_admin_needs_no_tls_keys(tmp_path: Path) -> None:
    config = configured(tmp_path, "kraft.admin.listener=off", "kraft.admin.ssl.keystore.location=none.pem")
    assert admin_tls(RealWorld(), config) is None


@pytest.mark.parametrize(
    ("sets", "sentence"),
    [
        (["kraft.admin.ssl.client.auth=required"], "kraft.admin.ssl.keystore.location (or ssl.keystore.key) has to"),
        (["kraft.admin.ssl.keystore.location=none.pem"], "kraft.admin.ssl.keystore.location: none.pem cannot be read"),
        (
            ["kraft.admin.ssl.keystore.location={0}/node.pem", "kraft.admin.ssl.client.auth=requested"],
            "kraft.admin.ssl.client.auth=requested needs ssl.truststore.location",
        ),
        (
            ["kraft.admin.ssl.keystore.location={0}/node.pem", "kraft.admin.ssl.cipher.suites=NONSENSE"],
            "kraft.admin.ssl.cipher.suites: NONSENSE is not known",
        ),
        (["kraft.admin.ssl.keystore.location={0}/mixed.pem"], "kraft.admin.ssl: the private key and its certificates"),
    ],
)
def test_unusable_tls_files_fail_the_start_with_one_sentence(tmp_path: Path, sets: list[str], sentence: str) -> None:
    (tmp_path / "mixed.pem").write_text(certificates().client_key + certificates().node_chain)
    config = configured(tmp_path, *(each.format(tmp_path) for each in sets))
    with pytest.raises(ConfigurationError) as caught:
        admin_tls(RealWorld(), config)
    (problem,) = caught.value.problems
    assert sentence in problem


@pytest.mark.parametrize(
    ("days", "event"), [(-1, "a certificate has expired"), (3, "a certificate expires soon"), (15, None)]
)
def test_an_expiring_certificate_is_logged_at_start(tmp_path: Path, days: int, event: str | None) -> None:
    lines: list[Any] = []
    config = configured(tmp_path, f"kraft.admin.ssl.keystore.location={tmp_path}/ending.pem")
    key, chain = certificates().ending(datetime.now(UTC) + timedelta(days=days))
    (tmp_path / "ending.pem").write_text(key + chain)
    assert AdminTls(RealWorld(log_sink=lines.append), config).certificate_chain() == chain.strip()
    assert [line["event"] for line in lines] == ([] if event is None else [event])


def test_changed_certificate_files_are_used_and_broken_ones_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    lines: list[Any] = []
    moments = iter(range(1, 100))

    def write(text: str) -> None:
        """With a time of its own, however coarse the disk's clock is."""
        (tmp_path / "node.pem").write_text(text)
        os.utime(tmp_path / "node.pem", (1_000_000, next(moments)))

    async def until(condition: Callable[[], bool]) -> None:
        with trio.fail_after(60):
            while not condition():  # noqa: ASYNC110  # Files tell nobody.
                await trio.sleep(0.005)

    async def main() -> None:
        config = configured(tmp_path, f"kraft.admin.ssl.keystore.location={tmp_path}/node.pem")
        keys = AdminTls(RealWorld(log_sink=lines.append), config)
        first = keys.context()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keys.follow_files)
            write("half a fi")
            await until(lambda: bool(lines))
            assert keys.context() is first
            write("".join(certificates().renewed()))
            await until(lambda: keys.context() is not first)
            nursery.cancel_scope.cancel()

    trio.run(main)
    # A file may be seen between its content and its time, and is then looked at twice.
    assert list(dict.fromkeys(line["event"] for line in lines)) == [
        "changed TLS keys are invalid: the previous keys stay in force",
        "TLS keys reloaded",
    ]
