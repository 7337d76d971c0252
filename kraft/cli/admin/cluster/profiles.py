"""`kraft profiles`: names for clusters, in place of addresses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from kraft.cli.admin.options import Output, parse_bootstrap, parse_pairs
from kraft.cli.admin.output import Table, say, show
from kraft.cli.admin.profile_file import VARIABLES, Profiles, profiles_path, read_profiles, write_profiles
from kraft.cli.admin.running import NotFound, complain
from kraft.common.errors import ConfigurationError

app = typer.Typer(no_args_is_help=True, add_completion=False)

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


def _read() -> tuple[Path, Profiles]:
    path = profiles_path(os.environ)
    try:
        return path, read_profiles(path)
    except ConfigurationError as problem:
        raise typer.Exit(complain(problem)) from problem


def _write(path: Path, profiles: Profiles) -> None:
    try:
        write_profiles(path, profiles)
    except ConfigurationError as problem:
        raise typer.Exit(complain(problem)) from problem


@app.command("list", epilog="Example: kraft profiles list")
def list_profiles(output: Output = None) -> None:
    """Show the profiles, and the file that holds them."""
    path, profiles = _read()
    rows = [(name, *(settings.get(key, "") for key in VARIABLES)) for name, settings in profiles.items()]
    show(
        {"file": str(path), "profiles": [{"name": name, **settings} for name, settings in profiles.items()]},
        [Table(("PROFILE", *(key.upper() for key in VARIABLES)), rows)],
        output,
    )


@app.command(
    "set", epilog="Example: kraft profiles set prod bootstrap-server=a:9092,b:9092 command-config=~/prod.properties"
)
def set_profile(
    name: Name,
    settings: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE...", help=f"{', '.join(VARIABLES)}; an empty value takes one away."),
    ],
    output: Output = None,
) -> None:
    """Create a profile, or change the given settings. Use it with `kraft --profile NAME ...` or KRAFT_PROFILE=NAME."""
    given = parse_pairs(settings, "KEY=VALUE")
    for key in given:
        if key not in VARIABLES:
            raise typer.BadParameter(f"{key} is not one of {', '.join(VARIABLES)}", param_hint="KEY=VALUE")
    if given.get("bootstrap-server"):
        parse_bootstrap(given["bootstrap-server"])
    if given.get("command-config"):
        given["command-config"] = str(Path(given["command-config"]).expanduser().absolute())
    path, profiles = _read()
    profile = {**profiles.get(name, {}), **given}
    profiles[name] = {key: profile[key] for key in VARIABLES if profile.get(key)}
    _write(path, profiles)
    say({"name": name, **profiles[name], "file": str(path)}, f"profile {name} is in {path}", output)


@app.command(epilog="Example: kraft profiles remove prod")
def remove(name: Name, output: Output = None) -> None:
    """Delete a profile."""
    path, profiles = _read()
    if profiles.pop(name, None) is None:
        raise typer.Exit(
            complain(NotFound(f"there is no profile {name!r} in {path}", "`kraft profiles list` shows them"))
        )
    _write(path, profiles)
    say({"removed": name}, f"removed {name}", output)
