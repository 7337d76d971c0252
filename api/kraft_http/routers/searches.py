"""Search in the records of a topic. The response is a stream of JSON lines that begins before the search ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from kraft_http.models.common import INT32_MAX, INT64_MAX
from kraft_http.models.records import DataType
from kraft_http.models.searches import SearchEnd, SearchHit, SearchProgress, SearchStart
from kraft_http.records.record_codec import decode_base64
from kraft_http.records.search_conditions import BadCondition, Comparison, Condition, Part
from kraft_http.records.searching import SEARCHES_MAX, Search, Searches, Wanted
from kraft_http.requests.deps import ClusterContext, Port, TopicNamePath, cluster_context
from kraft_http.requests.errors import ApiProblem, documented

router = APIRouter(tags=["Records"])

SECONDS_MAX: Final = 120


class JsonLines(StreamingResponse):
    media_type = "application/jsonl"


class _Answer(JsonLines):
    """A search response. It counts against the limit until its last line is sent or the client has disconnected."""

    def __init__(self, search: Search, searches: Searches) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(_lines(search), headers=headers)
        self._searches = searches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._searches.leave()


async def searched_for(
    key: Annotated[str | None, Query(max_length=4096, description="Records with exactly this key.")] = None,
    key_base64: Annotated[str | None, Query(max_length=4096, description="The same as `key`, in base64.")] = None,
    text: Annotated[
        str | None, Query(min_length=1, max_length=1024, description="Text to find, in upper or lower case.")
    ] = None,
    part: Annotated[
        list[Part] | None,
        Query(max_length=3, description="Part of the record to search. Default: key, value and headers."),
    ] = None,
    header: Annotated[str | None, Query(max_length=256, description="Search only the value of this header.")] = None,
    where: Annotated[
        str | None,
        Query(
            max_length=1024, description='Comparison of a field of the value\'s JSON: `.order.id == 5`, `.a[0] != "x"`.'
        ),
    ] = None,
    from_time: Annotated[
        int | None, Query(ge=0, le=INT64_MAX, description="First timestamp, in milliseconds since 1970.")
    ] = None,
    to_time: Annotated[int | None, Query(ge=0, le=INT64_MAX, description="Timestamp after the last one.")] = None,
) -> Condition:
    """The condition of the query parameters. Raises ApiProblem."""
    if key is not None and key_base64 is not None:
        raise ApiProblem(400, "key and key_base64 exclude each other.")
    if text is None and (part is not None or header is not None):
        raise ApiProblem(400, "part and header say where text is looked for: text is missing.")
    if header is not None and part not in (None, [Part.HEADERS]):
        raise ApiProblem(400, "With header, text is looked for in that header only: leave out part.")
    exact = decode_base64(key_base64) if key_base64 is not None else None if key is None else _utf8(key)
    if exact is None and text is None and where is None:
        raise ApiProblem(400, "Say what to search for: key, key_base64, text or where.")
    return Condition(
        key=exact,
        text=None if text is None else text.lower(),
        parts=(Part.HEADERS,) if header is not None else tuple(Part) if part is None else tuple(dict.fromkeys(part)),
        header=header,
        where=None if where is None else _comparison(where),
        from_time_ms=from_time,
        to_time_ms=to_time,
    )


@router.get(
    "/v1/topics/{topic_name}/records:search",
    summary="Search in the records of a topic",
    response_class=JsonLines,
    response_model=SearchStart | SearchHit | SearchProgress | SearchEnd,
    responses=documented(400, 403, 404)
    | {200: {"model": SearchStart | SearchHit | SearchProgress | SearchEnd, "description": "Lines, each one of these."}}
    | {429: {"description": f"{SEARCHES_MAX} searches run on this node already."}},
)
async def search_records(
    request: Request,
    port: Port,
    topic_name: TopicNamePath,
    condition: Annotated[Condition, Depends(searched_for)],
    partitions: Annotated[
        str | None,
        Query(
            pattern=r"^\d{1,10}(,\d{1,10})*$",
            max_length=8192,
            description="Only these partitions: `0,3`. Default: the partition of the key, or all.",
        ),
    ] = None,
    everywhere: Annotated[bool, Query(description="Whether to search all partitions for the key.")] = False,
    from_offset: Annotated[int | None, Query(ge=0, le=INT64_MAX, description="First offset in each partition.")] = None,
    to_offset: Annotated[int | None, Query(ge=0, le=INT64_MAX, description="Offset after the last one.")] = None,
    committed: Annotated[
        bool, Query(description="Whether records of open and aborted transactions are skipped.")
    ] = False,
    limit: Annotated[int, Query(ge=1, le=1000, description="Largest number of results.")] = 100,
    seconds: Annotated[int, Query(ge=1, le=SECONDS_MAX, description="Longest duration of the search.")] = 30,
    data_format: Annotated[
        DataType | None,
        Query(alias="format", description="Default: JSON if the value is JSON, text if it is UTF-8, else base64."),
    ] = None,
) -> Response:
    """Search records. At least one of `key`, `key_base64`, `text` and `where` is required; all that are given must
    match. The response is `application/jsonl`: a line `start`, lines `hit` as they are found, `progress` twice a
    second, and `end` with the reason: `all_read`, `hits`, `time` or `failed`. A search stops when its client closes the
    connection. It reads up to the partitions' ends at its start. All searches of a node share 16 MiB and 50,000 records
    a second."""
    wanted = Wanted(
        condition=condition,
        partitions=None if partitions is None else _partitions(partitions),
        everywhere=everywhere,
        from_offset=from_offset,
        to_offset=to_offset,
        committed=committed,
        limit=limit,
        seconds=seconds,
        data_format=data_format,
    )
    cluster = await cluster_context(request, port, port.identity.cluster_id)
    return await _begin(request.app.state.searches, cluster, topic_name, wanted)


async def _begin(searches: Searches, cluster: ClusterContext, topic_name: str, wanted: Wanted) -> Response:
    """Start a search. Raises Refused, ApiProblem."""
    searches.enter()
    try:
        search = await Search.open(cluster, topic_name, wanted, searches)
    except BaseException:
        searches.leave()
        raise
    return _Answer(search, searches)


async def _lines(search: Search) -> AsyncIterator[bytes]:
    async for line in search.lines():
        yield line.model_dump_json().encode() + b"\n"


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as problem:
        raise ApiProblem(400, "key is no text that UTF-8 can carry.") from problem


def _comparison(text: str) -> Comparison:
    try:
        return Comparison.parse(text)
    except BadCondition as problem:
        raise ApiProblem(400, str(problem)) from problem


def _partitions(text: str) -> tuple[int, ...]:
    indexes = tuple(int(index) for index in text.split(","))
    if max(indexes) > INT32_MAX:
        raise ApiProblem(400, "partitions holds a number that is too large.")
    return indexes
