"""`--command-config FILE`: the connection settings for a cluster, in Kafka's client keys."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kraft.cli.config_files import process_secret_places
from kraft.common.config.properties import parse_properties
from kraft.common.config.providers import Providers, is_provider_key
from kraft.common.errors import ConfigurationError

if TYPE_CHECKING:
    from kraft.rpc_client.client_keys import ClientSecurity

OPTION: Final = "--command-config"
_BOOTSTRAP: Final = "--bootstrap-server"
_ADMIN: Final = "KRAFT_ADMIN"
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
            help=(
                "File with Kafka's client keys: security.protocol=SASL_SSL, sasl.jaas.config, "
                "ssl.truststore.location ..."
            ),
            callback=_remember,
            expose_value=False,
        ),
    ] = None,
) -> None:
    """Declares the option that `offer` adds to other commands."""


def offer(command: Any) -> None:
    """Add the option to every verb of a noun that connects to a cluster."""
    carrier = typer.Typer(add_completion=False)
    carrier.command()(_verb)
    [option] = [each for each in typer.main.get_command(carrier).params if OPTION in each.opts]
    _offer(command, option)


def _offer(command: Any, option: Any) -> None:
    for verb in getattr(command, "commands", {}).values():
        _offer(verb, option)
    if any(_asks_cluster(parameter) for parameter in command.params):
        command.params.append(option)


def _asks_cluster(parameter: Any) -> bool:
    """Whether a verb's parameter is the address of a node, for Kafka's protocol or HTTP."""
    return _BOOTSTRAP in getattr(parameter, "opts", ()) or getattr(parameter, "envvar", None) == _ADMIN


def security_of_command() -> ClientSecurity:
    """The security settings of the running command's file. Raises ConfigurationError."""
    from kraft.rpc_client.client_keys import ClientSecurity  # `--help` does not want it.

    path = _chosen.get()
    return ClientSecurity() if path is None else read_client_security(path)


def read_client_security(path: str) -> ClientSecurity:
    """The security settings of a file. Raises ConfigurationError with every problem."""
    from kraft.rpc_client.client_keys import security_of  # Likewise.

    return security_of(path, _values_in(path))


def read_client_keys(path: str) -> dict[str, str]:
    """The keys of a file, for clients in other processes. Raises ConfigurationError with every problem."""
    from kraft.rpc_client.client_keys import security_of  # Likewise.

    values = _values_in(path)
    security_of(path, values)
    return {key: value for key, value in values.items() if key.startswith(("security.", "sasl.", "ssl."))}


def _values_in(path: str) -> dict[str, str]:
    """The properties of a file. Raises ConfigurationError."""
    try:
        properties = parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ConfigurationError([f"{OPTION}: {path} cannot be read: {problem}"]) from problem
    values = {entry.key: entry.value for entry in properties}
    providers = Providers(values, process_secret_places())
    problems = list(providers.problems)
    for key in [key for key in values if not is_provider_key(key)]:
        try:
            values[key] = providers.resolve(values[key])
        except ValueError as problem:
            problems.append(f"{key}: {problem}")
    if problems:
        raise ConfigurationError([f"{path}: {problem}" for problem in problems])
    return values
