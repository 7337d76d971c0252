"""False responses: a node answers requests of one API with an error code that the test chose."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, TypeAlias

from kraft.network.reply import Reply, inside
from kraft.protocol import api_keys
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import RequestHeader

if TYPE_CHECKING:
    from kraft.network.reply import Dispatcher, Peer
    from kraft.testing.faults.switchboard import Switchboard

API_KEYS_END: Final = 100
NODES: Final = ("broker-", "raft-")
"""The prefix of nodes' client ids. Their requests to each other are answered normally."""


Refuse: TypeAlias = "Callable[[Peer, memoryview, int, str | None], Awaitable[Reply]]"


class FailingAnswers:
    """Implements `kraft.network.reply.Dispatcher` for one listener of a node. Gives the switchboard's error, if it has
    one for the request, else passes the request to the node's own dispatcher."""

    def __init__(self, dispatcher: Dispatcher, refuse: Refuse, board: Switchboard, node: int) -> None:
        """`refuse` makes the error response of a request (`RequestDispatcher.refuse`)."""
        self._dispatcher = dispatcher
        self._refuse = refuse
        self._board = board
        self._node = node

    def may_overtake_wait(self, frame: memoryview) -> bool:
        return self._dispatcher.may_overtake_wait(frame)

    def dispatch(self, peer: Peer, frame: memoryview) -> Reply | Awaitable[Reply]:
        if not self._board.answers:
            return self._dispatcher.dispatch(peer, frame)
        header, _ = RequestHeader.decode(frame)
        if (header.client_id or "").startswith(NODES):
            return self._dispatcher.dispatch(peer, frame)
        wanted = self._board.take_answer(self._node, header.api_key)
        if wanted is None:
            return self._dispatcher.dispatch(peer, frame)
        code, is_carried_out = wanted
        kept = memoryview(bytes(frame))
        if not is_carried_out:
            return self._refuse(peer, kept, code, None)
        outcome = self._dispatcher.dispatch(peer, frame)
        if type(outcome) is Reply:
            return self._refuse(peer, kept, code, None)

        async def instead(answer: Awaitable[Reply]) -> Reply:
            await answer
            return await self._refuse(peer, kept, code, None)

        return inside(outcome, instead)  # type: ignore[arg-type]  # A Reply is excluded.


def key_of(api: str) -> int:
    """The API key for Kafka's name of an API, such as Produce. Raises LookupError."""
    names = {api_keys.name_of(key): key for key in range(API_KEYS_END)}
    return _find(api, names, "API of Kafka")


def code_of(error: str) -> int:
    """The error code for Kafka's name of an error, such as NOT_LEADER_OR_FOLLOWER. Raises LookupError."""
    names = {name: value for name, value in vars(ErrorCode).items() if isinstance(value, int) and value}
    return _find(error, names, "error of Kafka")


def _find(name: str, names: dict[str, int], what: str) -> int:
    if name not in names:
        close = get_close_matches(name, names, n=1, cutoff=0.5)
        raise LookupError(f"there is no {what} named {name!r}" + (f"; did you mean {close[0]}?" if close else ""))
    return names[name]
