"""The registry of handlers: the single source for dispatch, ApiVersions, docs/api-support.md and tests. An API that is
not served must not be advertised.

Three kinds of handler:

- An ordinary one gets a decoded request of its own and returns a response message. It may await.
- An in-place one (Produce, Fetch) gets a request whose records lie in the frame, and finishes its first stage without
  awaiting.
- A raw one (Metadata) gets the frame itself and encodes its own reply.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from kraft.common.errors import ProtocolError
from kraft.handlers.security.permissions import PermissionCheck
from kraft.network.reply import Peer, Reply
from kraft.protocol import api_keys
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.api_versions_response import ApiVersion
from kraft.protocol.schema import Message, fields_of
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.handlers.throttling import LoopMeter
    from kraft.security.authorizer import Authorizer

BROKER = "broker"
CONTROLLER = "controller"


class RequestContext:
    """The header and the origin of one request."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id", "meter", "peer", "principal")

    def __init__(
        self,
        peer: Peer,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        principal: str | None = None,
    ) -> None:
        self.peer = peer
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.principal = peer.principal if principal is None else principal
        """The principal of the client, `User:name`, also in a request that a broker has forwarded (Envelope)."""
        self.meter: LoopMeter | None = None
        """Meter of the request's time on the loop, if it is measured."""

    @property
    def client_host(self) -> str:
        """The client's host in Kafka's form: the address with a leading slash."""
        return "/" + self.peer.host


Serve = Callable[[Any, RequestContext, Any], Awaitable[Any]]
ServeInPlace = Callable[[Any, int, RequestContext, Any], Reply | Message | Awaitable[Reply | Message]]
"""(request, bytes of its frame, context, services) -> the response. A response that is returned synchronously is
small."""
ServeRaw = Callable[[memoryview, int, RequestContext, Any], Reply | Awaitable[Reply]]
OnError = Callable[[Any, int, str | None], Any]
"""(request, code, message) -> the response, or a generator that yields after each item and returns the response."""


class Handler:
    """One API on one kind of listener. `versions` are the versions served; `advertised_min` differs from the first of
    them only for Produce (KAFKA-18659)."""

    __slots__ = (
        "advertised_min",
        "begins_at_once",
        "frame_bytes_max",
        "in_place",
        "key",
        "listeners",
        "max_version",
        "min_version",
        "on_error",
        "overtakes",
        "permission",
        "raw",
        "request_class",
        "serve_function",
        "too_large_code",
        "unguarded",
    )

    def __init__(
        self,
        key: int,
        versions: tuple[int, int],
        *,
        permission: PermissionCheck,
        listeners: Iterable[str] = (BROKER,),
        advertised_min: int | None = None,
        overtakes: bool = False,
        frame_bytes_max: Callable[[Any], int] | None = None,
        too_large_code: int = ErrorCode.UNKNOWN_SERVER_ERROR,
    ) -> None:
        """`permission` is the check of a request if there is an authorizer.

        A frame larger than `frame_bytes_max(services)` is not decoded: its request gets `too_large_code`. Such an API
        must have a top-level error code and no `error` function.
        """
        self.key = key
        self.request_class = api_keys.request_class(key)
        self.min_version, self.max_version = versions
        self.advertised_min = self.min_version if advertised_min is None else advertised_min
        self.listeners = frozenset(listeners)
        self.overtakes = overtakes
        self.permission = permission
        self.unguarded = self
        """The handler without the permission check, for requests of this node to itself."""
        self.frame_bytes_max = frame_bytes_max
        self.too_large_code = too_large_code
        self.serve_function: Serve | None = None
        self.in_place: ServeInPlace | None = None
        self.raw: ServeRaw | None = None
        self.begins_at_once = False
        """Whether the handler runs in place or raw."""
        self.on_error: OnError | None = None

    def serve(self, function: Serve) -> Serve:
        """Decorator for the function that serves this API."""
        self.serve_function = function
        return function

    def serve_raw(self, function: ServeRaw) -> ServeRaw:
        """Decorator for the function that serves this API from the frame itself."""
        self.raw = function
        self.begins_at_once = True
        return function

    def serve_in_place(self, function: ServeInPlace) -> ServeInPlace:
        """Decorator for the function that serves this API from a request whose records lie in the frame."""
        self.in_place = function
        self.begins_at_once = True
        return function

    def error(self, function: OnError) -> OnError:
        """Decorator for the function (request, code, message) -> error response, for APIs whose errors are not only
        top-level fields."""
        self.on_error = function
        return function

    def guarded(self, authorizer: Authorizer) -> Handler:
        """A copy of this handler that checks its permission first. Raw and in-place handlers check their own."""
        if self.serve_function is None:
            return self
        guarded = copy.copy(self)

        async def serve(request: Any, context: RequestContext, services: Any) -> Any:
            access = authorizer.access_of(context)
            return await self.permission.serve(request, context, services, access, self)

        guarded.serve_function = serve
        return guarded

    def error_response(self, request: Any, version: int, code: int, message: str | None) -> Steps[Any]:
        """The response to a request that failed as a whole. Yields after each item if the response lists the items.
        Raises ProtocolError if this API has no error response: the connection then closes."""
        if self.on_error is None:
            return self._top_level_error(code, message)
        response = self.on_error(request, code, message)
        if isinstance(response, GeneratorType):
            response = yield from response
        if not all(field.present(version) for field in fields_of(type(response)) if field.name == "error_code"):
            response.error_code = ErrorCode.NONE  # Older versions of some, newer ones of others, have it below only.
        return response

    def _top_level_error(self, code: int, message: str | None) -> Any:
        response: Any = api_keys.response_class(self.key)()
        if not hasattr(response, "error_code"):
            raise ProtocolError(f"{api_keys.name_of(self.key)}: {message or code}")
        response.error_code = code
        if hasattr(response, "error_message"):
            response.error_message = message
        return response


def between(first: int, last: int) -> tuple[int, int]:
    """The range of versions, both inclusive."""
    return first, last


class Registry:
    """The handlers of one kind of listener by API key. With an authorizer they are guarded."""

    def __init__(self, listener: str, handlers: Iterable[Handler], authorizer: Authorizer | None = None) -> None:
        self.listener = listener
        self._by_key: dict[int, Handler] = {}
        for handler in handlers:
            if listener in handler.listeners:
                assert handler.key not in self._by_key, f"two handlers for API {handler.key} on {listener}"
                self._by_key[handler.key] = handler if authorizer is None else handler.guarded(authorizer)
        self.get = self._by_key.get
        """The handler of an API key, or None."""
        self.api_versions = [
            ApiVersion(api_key=handler.key, min_version=handler.advertised_min, max_version=handler.max_version)
            for handler in self.handlers()
        ]
        """The response to the first request of every connection. Never changed."""

    def handlers(self) -> list[Handler]:
        """All handlers, sorted by API key."""
        return [self._by_key[key] for key in sorted(self._by_key)]
