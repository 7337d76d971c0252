"""`kraft users`: users who authenticate by SCRAM (KIP-554)."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from kraft.admin import users
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout, Yes, confirm
from kraft.cli.admin.output import Table, say, show
from kraft.cli.admin.running import ask
from kraft.rpc_client.cluster import Cluster
from kraft.security.scram_credentials import ITERATIONS_DEFAULT, MECHANISMS, ScramMechanism

app = typer.Typer(no_args_is_help=True, help="Users with a password (SCRAM): add, list and remove them.")

PASSWORD_CHARACTERS_MAX = 4_096
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user, without User:.", show_default=False)]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option("--mechanism", metavar="NAME", help="SCRAM-SHA-512 or SCRAM-SHA-256. Repeatable."),
]


@app.command(epilog="Example: kraft users add alice < password.txt")
def add(
    name: Name,
    mechanisms: Mechanisms = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            metavar="N",
            min=4096,
            max=16384,
            help="Iterations of the password hash: more make guessing slower.",
        ),
    ] = ITERATIONS_DEFAULT,
    variable: Annotated[
        str | None,
        typer.Option("--password-variable", metavar="NAME", help="Read the password from this environment variable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Set a user's password, replacing an earlier one. It is asked for on a terminal, else read from the first line of
    standard input. There is no option for it: every user of this machine can read command lines."""
    wanted = _mechanisms(mechanisms) or [MECHANISMS["SCRAM-SHA-512"]]
    if not name or name.startswith("User:"):
        raise typer.BadParameter(f"{name!r} is not a user name; leave out User:", param_hint="NAME")
    password = _password(name, variable)
    ask(bootstrap, timeout, lambda cluster: users.put_user(cluster, name, password, wanted, iterations))
    names = [each.name for each in wanted]
    document = {"user": name, "mechanisms": names, "iterations": iterations}
    say(document, f"user {name} can now log in with {' or '.join(names)}", output)


def _mechanisms(names: list[str] | None) -> list[ScramMechanism]:
    """The mechanisms of the names. Raises typer.BadParameter (exit 2)."""
    for name in names or ():
        if name.upper() not in MECHANISMS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(MECHANISMS)}", param_hint="--mechanism")
    return [MECHANISMS[name] for name in dict.fromkeys(each.upper() for each in names or ())]


def _password(user: str, variable: str | None) -> str:
    """The password. Raises typer.BadParameter (exit 2) if there is none."""
    if variable is not None:
        password = os.environ.get(variable, "")
        where = f"the variable {variable}"
    elif sys.stdin.isatty():
        password = typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt="Again", err=True)
        where = "what was typed"
    else:
        password = sys.stdin.readline(PASSWORD_CHARACTERS_MAX + 2).rstrip("\r\n")
        where = "the first line of standard input"
    if not password:
        raise typer.BadParameter(f"{where} is empty", param_hint="password")
    if len(password) > PASSWORD_CHARACTERS_MAX:
        raise typer.BadParameter(f"{where} has more than {PASSWORD_CHARACTERS_MAX} characters", param_hint="password")
    return password


@app.command("list", epilog="Example: kraft users list")
def list_users(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Only these users.", show_default=False)
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the users of SCRAM. Users of PLAIN are in the configuration of the nodes."""
    found = ask(bootstrap, timeout, lambda cluster: users.describe_users(cluster, names or ()))
    rows = [(each.name, mechanism, str(count)) for each in found for mechanism, count in each.iterations.items()]
    document = {"users": [{"user": each.name, "iterations": dict(each.iterations)} for each in found]}
    show(document, [Table(("USER", "MECHANISM", "ITERATIONS"), rows)], output)


@app.command(epilog="Example: kraft users remove alice --yes")
def remove(
    name: Name,
    mechanisms: Mechanisms = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete a user's password, of all mechanisms or of some. Open sessions continue until they end."""
    chosen = _mechanisms(mechanisms)
    confirm(f"Remove the user {name}?", yes)

    async def take(cluster: Cluster) -> list[str]:
        [user] = await users.describe_users(cluster, [name])
        wanted = chosen or [MECHANISMS[each] for each in user.iterations]
        await users.remove_user(cluster, name, wanted)
        return [each.name for each in wanted]

    taken = ask(bootstrap, timeout, take)
    say({"user": name, "mechanisms": taken}, f"user {name} can no longer log in with {' or '.join(taken)}", output)
