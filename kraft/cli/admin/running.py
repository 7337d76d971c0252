"""Runs a function against a cluster; an error becomes a message on stderr and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import trio
import typer

from kraft.cli.admin.command_config import security_of_command
from kraft.cli.admin.options import INTERRUPTED, OutputFormat, parse_bootstrap
from kraft.cli.admin.output import abandon, say, warn
from kraft.cli.admin.unreached import REFUSED, REMEDIES, SILENT, cause_of
from kraft.common.errors import ApiError, ConfigurationError, KraftError
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected, NotAdmitted, UnsupportedApi
from kraft.rpc_client.errors import DeadlinePassed, LoginFailed, NoBroker
from kraft.world.real import RealWorld

T = TypeVar("T")

FAILED = 1
NOT_FOUND = 3
CONNECT_SECONDS_MAX = 5.0

NOT_FOUND_CODES = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    )
)

HINTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`kraft topics list` shows the topics there are",
    ErrorCode.TOPIC_ALREADY_EXISTS: "`kraft topics describe` shows it; --if-not-exists makes this no error",
    ErrorCode.GROUP_ID_NOT_FOUND: "`kraft groups list` shows the groups there are",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`kraft transactions list` shows the transactional ids there are",
    ErrorCode.NON_EMPTY_GROUP: (
        "stop its members first; `kraft groups describe`, or `kraft share describe` of a share group, shows them"
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members; stop them first, `kraft groups describe` shows them",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group read this topic; stop them first",
    ErrorCode.INVALID_CONFIG: "`kraft configs describe --all` lists the keys with their types",
    ErrorCode.INVALID_REPLICATION_FACTOR: "`kraft brokers list` shows how many brokers there are",
    ErrorCode.SECURITY_DISABLED: (
        "entries need an authorizer: set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer "
        "and super.users on every node"
    ),
    ErrorCode.OFFSET_OUT_OF_RANGE: "`kraft topics describe` shows where each partition begins and ends",
}


class NotFound(KraftError):
    """Raised if a named thing does not exist: exit code 3."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def ask(bootstrap: str, timeout: float, question: Callable[[Cluster], Awaitable[T]], *, at_once: bool = True) -> T:
    """The result of `question` about the cluster at `bootstrap`. An error is printed on stderr and exits with its code.

    With `at_once` it fails immediately, not at the deadline, if no broker answers.
    """
    addresses = parse_bootstrap(bootstrap)
    try:
        world = RealWorld(**security_of_command()._asdict())
    except ConfigurationError as problem:
        raise typer.Exit(complain(problem)) from problem

    async def session() -> T:
        each_seconds = min(CONNECT_SECONDS_MAX, timeout / len(addresses))  # They are tried in turn.
        async with Cluster(world, addresses, connect_seconds=each_seconds, operation_seconds=timeout) as cluster:
            if at_once:
                await cluster.features()  # Fails immediately if no broker answers, not at the deadline.
                cluster.connect_seconds = min(CONNECT_SECONDS_MAX, timeout)
            return await question(cluster)

    try:
        return trio.run(session)
    except BaseException as problem:
        alone = _alone(problem)
        if isinstance(alone, KraftError | TimeoutError):
            raise typer.Exit(complain(alone)) from problem
        if isinstance(alone, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        if isinstance(alone, BrokenPipeError):
            abandon(sys.stdout)
            raise typer.Exit from None
        raise alone from alone.__cause__


Failures = dict[str, KraftError | TimeoutError]


async def each_of(names: Sequence[str], act: Callable[[str], Awaitable[None]]) -> tuple[list[str], Failures]:
    """The names for which `act` succeeded, and the errors of the others. A failure does not stop the others, unless the
    cluster does not answer."""
    done: list[str] = []
    failed: Failures = {}
    for position, name in enumerate(names):
        try:
            await act(name)
        except ApiError as problem:
            failed[name] = problem
        except (KraftError, TimeoutError) as problem:
            failed[name] = problem
            failed.update({later: KraftError(f"{later}: not tried") for later in names[position + 1 :]})
            break
        else:
            done.append(name)
    return done, failed


def tell_deleted(deleted: list[str], failed: Failures, output: OutputFormat | None) -> None:
    """Print what was deleted on stdout and the failures on stderr. Exits with the code of the first failure."""
    document = {"deleted": deleted, "failed": {name: str(problem) for name, problem in failed.items()}}
    if deleted or not failed or (output is not None and output.is_document):
        say(document, f"deleted {', '.join(deleted)}" if deleted else "nothing to delete", output)
    codes = [complain(problem) for problem in failed.values()]
    if codes:
        raise typer.Exit(codes[0])


def _alone(problem: BaseException) -> BaseException:
    """The error to report from the exception groups of nurseries: an interruption before all else, then the first error
    that has a message for users."""
    found = _within(problem)
    for each in found:
        if isinstance(each, KeyboardInterrupt):
            return each
    can_be_told = all(isinstance(each, KraftError | TimeoutError) for each in found)
    return found[0] if can_be_told or len(found) == 1 else problem


def _within(problem: BaseException) -> list[BaseException]:
    return (
        [leaf for each in problem.exceptions for leaf in _within(each)]
        if isinstance(problem, BaseExceptionGroup)
        else [problem]
    )


def complain(problem: KraftError | TimeoutError) -> int:
    """Print the error on stderr, with a hint if there is one. Returns the exit code."""
    lines = problem.problems if isinstance(problem, ConfigurationError) else [str(problem)]
    for line in lines:
        warn(f"kraft: {line}")
    hint = hint_for(problem)
    if hint:
        warn(f"  hint: {hint}")
    return exit_code(problem)


@contextmanager
def exit_on_failure(path: object = None) -> Iterator[None]:
    """Print a KraftError or OSError of the body and exit with its code. `path` is named if the OSError has no file
    name."""
    try:
        yield
    except KraftError as problem:
        raise typer.Exit(complain(problem)) from problem
    except OSError as problem:
        raise typer.Exit(complain(KraftError(f"{problem.filename or path}: {problem.strerror}"))) from problem


def exit_code(problem: BaseException | None) -> int:
    if isinstance(problem, NotFound) or (isinstance(problem, ApiError) and problem.code in NOT_FOUND_CODES):
        return NOT_FOUND
    return FAILED


def hint_for(problem: BaseException | None) -> str:
    """A hint on what the user can do; empty if there is none."""
    if isinstance(problem, NotFound):
        return problem.hint
    if isinstance(problem, ApiError):
        return HINTS.get(problem.code, "")
    if isinstance(problem, NoBroker | Disconnected | NotAdmitted | LoginFailed):
        remedy = REMEDIES.get(cause) if (cause := cause_of(problem)) not in (REFUSED, SILENT) else None
        return remedy or (
            "is a node running there? `kraft-node` starts one; --bootstrap-server HOST:PORT names another; "
            "--command-config FILE says how to reach one by SSL"
        )
    if isinstance(problem, UnsupportedApi):
        return "the node is older than this command; `kraft brokers describe ID` shows what it serves"
    if isinstance(problem, DeadlinePassed | TimeoutError):
        return "--timeout SECONDS sets a longer timeout; `kraft cluster health` shows whether the cluster is healthy"
    return ""
