"""The keys that a node's listeners show: read at start, refused with a sentence, renewed when files change."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ConfigurationError
from kraft.common.logging import Loggers
from kraft.server.security import tls_keys
from kraft.server.security.tls_keys import TlsKeys
from kraft.world.ports import FileSystem, Tls
from kraft.world.real import RealWorld
from tests.certificates import certificates


def configured(directory: Path, *sets: str) -> NodeConfig:
    certificates().write(directory)
    return load_node_config(
        sets=[
            "listeners=SSL://127.0.0.1:0,INNER://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "listener.security.protocol.map=SSL:SSL,INNER:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name=INNER",
            f"ssl.keystore.location={directory}/node.pem",
            f"listener.name.inner.ssl.truststore.location={directory}/ca.pem",
            "listener.name.inner.ssl.client.auth=required",
            *sets,
        ]
    )


def test_each_tls_listener_has_its_own_settings_and_a_plaintext_one_has_none(tmp_path: Path) -> None:
    world = RealWorld()
    keys = TlsKeys(world, configured(tmp_path))
    outer, inner = keys.of_listener("SSL"), keys.of_listener("INNER")
    assert outer is not None
    assert inner is not None
    assert (outer.client_auth, outer.trusted) == ("none", "")
    assert (inner.client_auth, inner.trusted) == ("required", certificates().trusted.strip())
    assert keys.of_listener("CONTROLLER") is None
    assert keys.world_towards("CONTROLLER") is world
    towards = keys.world_towards("INNER").tls
    assert towards is not None
    assert (towards.check_host, towards.certificate_chain) == (True, inner.certificate_chain)


def test_unusable_tls_settings_refuse_the_start_with_an_error_for_each_listener(tmp_path: Path) -> None:
    config = configured(tmp_path, "listener.name.ssl.ssl.keystore.location=none.p12", "ssl.cipher.suites=NONSENSE")
    with pytest.raises(ConfigurationError) as caught:
        TlsKeys(RealWorld(), config)
    problems = "\n".join(caught.value.problems)
    assert "listener SSL: ssl.keystore.location: none.p12 cannot be read" in problems
    assert "listener INNER: ssl.cipher.suites: NONSENSE is not known" in problems


def test_the_expiry_of_a_certificate_used_only_between_nodes_is_exported(tmp_path: Path) -> None:
    """A broker without the controller role shows its certificate at the controllers' listener alone."""
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    certificates().write(tmp_path)
    config = load_node_config(
        sets=[
            "process.roles=broker",
            "listeners=SSL://127.0.0.1:0",
            "listener.security.protocol.map=SSL:SSL,CONTROLLER:SSL",
            "controller.quorum.bootstrap.servers=127.0.0.1:1",
            f"ssl.keystore.location={tmp_path}/node.pem",
            f"ssl.truststore.location={tmp_path}/ca.pem",
            f"listener.name.controller.ssl.keystore.location={tmp_path}/soon.pem",
        ]
    )
    (tmp_path / "soon.pem").write_text("".join(certificates().ending(soon)))
    keys = TlsKeys(RealWorld(), config)
    assert keys.expiries()["CONTROLLER"] == soon.timestamp()
    assert keys.expiries()["SSL"] > soon.timestamp()


def test_the_expiry_of_a_certificate_chain_loaded_elsewhere_is_exported(tmp_path: Path) -> None:
    ended = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    keys = TlsKeys(RealWorld(), configured(tmp_path))
    keys.watch("HTTP_ADMIN", lambda: certificates().ending(ended)[1])
    assert keys.expiries()["HTTP_ADMIN"] == ended.timestamp()


class Shown:
    """A listener that notes what it is given."""

    def __init__(self) -> None:
        self.taken: list[Tls] = []

    def take_tls(self, tls: Tls) -> None:
        self.taken.append(tls)


def test_changed_certificate_files_are_reloaded_and_broken_ones_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_keys, "LOOK_SECONDS", 0.01)
    lines: list[Any] = []
    found, (key, chain) = certificates(), certificates().renewed()
    listeners = {"SSL": Shown(), "INNER": Shown()}
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
        world = RealWorld(log_sink=lines.append)
        keys = TlsKeys(world, configured(tmp_path))
        towards = keys.world_towards("INNER")
        shown: Any = listeners
        async with trio.open_nursery() as nursery:
            keys.start(nursery, shown, Loggers(world.log_sink, world.clock).get("network"))
            write("half a fi")
            await until(lambda: any(line["level"] == "error" for line in lines))
            assert towards.tls is not None
            assert towards.tls.certificate_chain == found.node_chain.strip()
            write(key + chain)
            await until(lambda: all(listener.taken for listener in listeners.values()))
            await until(lambda: towards.tls is not None and towards.tls.certificate_chain == chain.strip())
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert [listener.taken[0].certificate_chain for listener in listeners.values()] == [chain.strip()] * 2
    assert all("neither PEM nor PKCS#12" in line["reason"] for line in lines if line["level"] == "error")


def test_a_certificate_file_that_was_briefly_unreadable_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_keys, "LOOK_SECONDS", 0.01)
    lines: list[Any] = []
    key, chain = certificates().renewed()
    listeners = {"SSL": Shown(), "INNER": Shown()}
    read, failing = tls_keys.read_store, [True] * 6

    def read_later(files: FileSystem, path: str) -> bytes:
        if failing:
            failing.pop()
            raise PermissionError(13, "Permission denied")
        return read(files, path)

    async def main() -> None:
        world = RealWorld(log_sink=lines.append)
        keys = TlsKeys(world, configured(tmp_path))
        shown: Any = listeners
        async with trio.open_nursery() as nursery:
            monkeypatch.setattr(tls_keys, "read_store", read_later)
            (tmp_path / "node.pem").write_text(key + chain)
            os.utime(tmp_path / "node.pem", (1_000_000, 1))
            keys.start(nursery, shown, Loggers(world.log_sink, world.clock).get("network"))
            with trio.fail_after(5):
                while not all(listener.taken for listener in listeners.values()):  # noqa: ASYNC110  # Files tell nobody.
                    await trio.sleep(0.005)
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert len([line for line in lines if line["level"] == "error"]) == 3
