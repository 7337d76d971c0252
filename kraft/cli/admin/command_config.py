"""`--command-config FILE`: how the nodes of a cluster are reached, in Kafka's client keys."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kraft.common.config.properties import parse_properties
from kraft.common.config.resources import TLS_KEYS_WITHOUT_EFFECT
from kraft.common.errors import ConfigurationError
from kraft.security.tls import KEYS, STORE_BYTES_MAX, TlsProblem, TlsSettings, load_tls
from kraft.world.ports import Tls

OPTION: Final = "--command-config"
_BOOTSTRAP: Final = "--bootstrap-server"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL")
_chosen: ContextVar[str | None] = ContextVar(OPTION, default=None)


def _remember(path: str | None) -> None:
    _chosen.set(path)


def _verb(
    command_config: Annotated[
        str | None,
        typer.Option(
            OPTION,
            metavar="FILE",
            envvar="KRAFT_COMMAND_CONFIG",
            help="Kafka's client keys: security.protocol=SSL, ssl.truststore.location ...",
            callback=_remember,
            expose_value=False,
        ),
    ] = None,
) -> None:
    """Has the option that `offer` gives to others."""


def offer(command: Any) -> None:
    """Give the option to every verb of a noun that asks a cluster."""
    carrier = typer.Typer(add_completion=False)
    carrier.command()(_verb)
    [option] = [each for each in typer.main.get_command(carrier).params if OPTION in each.opts]
    for verb in (*getattr(command, "commands", {}).values(), command):
        if any(_BOOTSTRAP in getattr(parameter, "opts", ()) for parameter in verb.params):
            verb.params.append(option)


def tls_of_command() -> Tls | None:
    """What the running command's file asks for. Raises ConfigurationError."""
    path = _chosen.get()
    return None if path is None else read_client_tls(path)


def read_client_tls(path: str) -> Tls | None:
    """None where the file asks for no encryption. Raises ConfigurationError with every problem."""
    try:
        properties = parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ConfigurationError([f"{OPTION}: {path} cannot be read: {problem}"]) from problem
    values = {entry.key: entry.value for entry in properties}
    problems = [f"{path}: {key} is not served yet" for key in values if key.startswith("sasl.")]
    known = (*KEYS, *TLS_KEYS_WITHOUT_EFFECT)
    problems += [f"{path}: unknown key {key}" for key in values if key.startswith("ssl.") and key not in known]
    protocol = values.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        problems.append(f"{path}: security.protocol={protocol} is not served yet, only {' and '.join(_PROTOCOLS)}")
    tls = None
    if protocol == "SSL":
        try:
            tls = load_tls(TlsSettings(values=values, is_server=False, prefix=f"{path}: "), _read)
        except TlsProblem as problem:
            problems.append(str(problem))
    elif any(key in KEYS for key in values):
        problems.append(f"{path}: there are ssl. keys, but security.protocol is {protocol}: SSL is meant")
    if problems:
        raise ConfigurationError(problems)
    return tls


def _read(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(STORE_BYTES_MAX + 1)
