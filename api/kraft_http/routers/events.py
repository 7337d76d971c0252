"""Events about leaders, in-sync sets, brokers and controllers, as the answering node saw them: a page of JSON, or a
stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from kraft.common.errors import ApiError
from kraft_http.models.common import INT64_MAX
from kraft_http.models.operations import EventData, EventList
from kraft_http.ports import AdminPort, EventFacts
from kraft_http.records.record_codec import format_timestamp
from kraft_http.requests.deps import Port
from kraft_http.requests.errors import ApiProblem, documented

router = APIRouter(tags=["Events"])

SSE: Final = "text/event-stream"
HEARTBEAT_SECONDS: Final = 10.0
"""The interval of heartbeats on a stream without events: proxies close connections without traffic."""
STREAMS_MAX: Final = 64
NEWEST_MAX: Final = 1000


@router.get(
    "/v1/events",
    summary="What happened, and what happens",
    response_model=EventList,
    responses=documented(400, 503)
    | {200: {"content": {SSE: {"schema": {"type": "string"}}}, "description": "A page, or a stream."}},
)
async def get_events(
    request: Request,
    port: Port,
    after: Annotated[
        int | None,
        Query(ge=-1, le=INT64_MAX, description="Only events after this id. Default: all that the node has kept."),
    ] = None,
    newest: Annotated[
        int | None, Query(ge=1, le=NEWEST_MAX, description="Only the newest events, at most so many. Excludes `after`.")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(description="The same as `after`. Browsers send it when they reconnect.")
    ] = None,
) -> Response:
    """Return events. With `Accept: text/event-stream` the response is a stream that continues as events happen. Each
    event has an id from which to continue. Ids belong to this node: other nodes number their events differently. A
    stream begins with an event `missed` if the node no longer has some of the requested events."""
    if newest is not None and after is not None:
        raise ApiProblem(400, "after and newest exclude each other.")
    start = _start(after, last_event_id)
    if SSE not in request.headers.get("accept", ""):
        page = await (port.events(start, 0) if newest is None else port.newest_events(newest))
        shown = EventList(data=[event_data(event) for event in page.events], missed=page.missed, last_id=page.last_id)
        return JSONResponse(shown.model_dump(), headers={"Cache-Control": "no-store"})
    streams: list[int] = request.app.state.event_streams
    if len(streams) >= STREAMS_MAX:
        raise ApiProblem(503, f"{STREAMS_MAX} streams of events are open already.")
    await port.events(start, 0)  # A caller without permission gets the error before the stream begins.
    return _CountedStream(_stream(port, start), streams)


class _CountedStream(StreamingResponse):
    """A stream that counts against the limit from its creation until its last byte is sent or the client has
    disconnected."""

    def __init__(self, content: AsyncIterator[str], streams: list[int]) -> None:
        super().__init__(content, media_type=SSE, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._streams = streams
        streams.append(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.pop()  # Which one does not matter: they are counted.


def _start(after: int | None, last_event_id: str | None) -> int:
    if last_event_id is not None and after is None:
        if not (last_event_id.isascii() and last_event_id.isdigit()) or int(last_event_id) > INT64_MAX:
            raise ApiProblem(400, "Last-Event-ID is not an id of an event of this API.")
        return int(last_event_id)
    return -1 if after is None else after


async def _stream(port: AdminPort, start: int) -> AsyncIterator[str]:
    """The server-sent events, until the client disconnects or the node stops."""
    try:
        yield "retry: 1000\n\n"
        while True:
            page = await port.events(start, HEARTBEAT_SECONDS)
            if page.missed:
                yield f"id: {page.last_id}\nevent: missed\ndata: {{}}\n\n"
            for event in page.events:
                yield f"id: {event.id}\nevent: {event.kind}\ndata: {json.dumps(event_data(event).model_dump())}\n\n"
            if not page.events:
                yield ": nothing new\n\n"
            start = page.last_id
    except (ConnectionError, ApiError):
        return  # The node stops, or events may not be seen any more. The client tries again, and is told.


def event_data(event: EventFacts) -> EventData:
    return EventData(id=event.id, time=format_timestamp(event.time_ms), kind=event.kind, fields=dict(event.fields))
