"""Records: produce a stream or a batch; consume without state on the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from kraft.common.ids import uuid_from_text
from kraft_http.models.common import INT32_MAX, INT64_MAX
from kraft_http.models.records import (
    BatchFailure,
    BatchSuccess,
    ConsumedRecords,
    DataType,
    ProduceBatchBody,
    ProduceBatchResponse,
    ProduceRecord,
    ProduceReport,
)
from kraft_http.records.consuming import Consumption, consume
from kraft_http.records.json_stream import BrokenStream, documents_of
from kraft_http.records.producing import ACKNOWLEDGED, Producer
from kraft_http.requests.deps import Cluster, TopicNamePath, Writable
from kraft_http.requests.errors import ApiProblem, documented

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics/{topic_name}", tags=["Records"])

POSITIONS_LENGTH_MAX: Final = 8192
PositionsTopicId = Annotated[
    str | None,
    Query(
        pattern=r"^[A-Za-z0-9_-]{22}$",
        description=(
            "Topic id of `positions`, from the earlier response. If the topic was recreated since then, its "
            "partitions are read from their start, and `topic_recreated` is true."
        ),
    ),
]
_PRODUCE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": (
            "One record, or many one after another, with or without line ends. Each is reported in order, as soon "
            "as it is acknowledged."
        ),
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ProduceRecord"}}},
    }
}


async def without_idempotency_key(request: Request) -> None:
    """Raises ApiProblem for an Idempotency-Key: records do not support it."""
    if "idempotency-key" in request.headers:
        raise ApiProblem(
            400,
            "Idempotency-Key is not supported for records: records sent again are appended again. Leave the "
            "header out.",
            hint="A producer of a Kafka client with enable.idempotence appends each record once.",
        )


@router.post(
    "/records",
    summary="Produce records",
    dependencies=[Writable, Depends(without_idempotency_key)],
    response_model=ProduceReport,
    responses=documented(400, 403, 404, 422),
    openapi_extra=_PRODUCE_BODY,
)
async def produce_records(cluster: Cluster, topic_name: TopicNamePath, request: Request) -> Response:
    """Append records. The status is 200 as soon as the first record is valid; each record's report has its result."""
    producer = await Producer.open(cluster, topic_name)
    groups = documents_of(request.stream())
    try:
        first = await anext(groups, None)
    except BrokenStream as problem:
        raise ApiProblem(400, f"Bad Request: {problem}") from problem
    if first is None:
        raise ApiProblem(422, "Payload error. Request body is empty. Data is required.", error_code=422)
    reports = await producer.append(first)
    if len(reports) == 1 and reports[0].error_code in (400, 422):
        return await _refused_or_going_on(producer, reports, groups)
    return _Reports(_stream(producer, reports, groups))


async def _refused_or_going_on(
    producer: Producer, reports: list[ProduceReport], groups: AsyncIterator[list[Any]]
) -> Response:
    """Respond to an invalid first record: if it is the only one the request is rejected, else its error is a report
    like the others."""
    try:
        following = await anext(groups, None)
    except BrokenStream:
        following = None
    if following is None:
        raise ApiProblem(400, reports[0].message or "Bad Request")
    reports += await producer.append(following)
    return _Reports(_stream(producer, reports, groups))


class _Reports(Response):
    """Sends reports while the request is still being received. Starlette's streaming response would read the same
    channel to detect a disconnect, and so take parts of the request. Here the request's own stream detects it."""

    media_type = "application/json"

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for line in self._lines:
                await send({"type": "http.response.body", "body": line, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (ClientDisconnect, OSError):
            return  # The client has disconnected.


async def _stream(
    producer: Producer, reports: list[ProduceReport], groups: AsyncIterator[list[Any]]
) -> AsyncIterator[bytes]:
    yield _lines(reports)
    try:
        async for documents in groups:
            yield _lines(await producer.append(documents))
    except BrokenStream as problem:
        yield _lines([ProduceReport(error_code=400, message=f"Bad Request: {problem}")])


def _lines(reports: list[ProduceReport]) -> bytes:
    return b"".join(report.model_dump_json(exclude_none=True).encode() + b"\r\n" for report in reports)


@router.post(
    "/records:batch",
    status_code=207,
    summary="Produce a batch of records",
    dependencies=[Writable, Depends(without_idempotency_key)],
    responses=documented(403, 404),
)
async def produce_batch(cluster: Cluster, topic_name: TopicNamePath, body: ProduceBatchBody) -> ProduceBatchResponse:
    ids = [entry.id for entry in body.entries]
    if len(dict.fromkeys(ids)) != len(ids):
        raise ApiProblem(400, "Batch entry IDs are not distinct.", error_code=42208)
    producer = await Producer.open(cluster, topic_name)
    records = [ProduceRecord(**entry.model_dump(exclude={"id"})) for entry in body.entries]
    answer = ProduceBatchResponse(successes=[], failures=[])
    for entry_id, report in zip(ids, await producer.append(records), strict=True):
        if report.error_code == ACKNOWLEDGED:
            answer.successes.append(BatchSuccess(id=entry_id, **report.model_dump()))
        else:
            answer.failures.append(
                BatchFailure(id=entry_id, error_code=report.error_code, message=report.message or "")
            )
    return answer


@router.get("/records", summary="Consume records", responses=documented(400, 404, 413))
async def consume_records(
    cluster: Cluster,
    topic_name: TopicNamePath,
    partition: Annotated[int | None, Query(ge=0, le=INT32_MAX, description="Default: every partition.")] = None,
    offset: Annotated[int | None, Query(ge=0, le=INT64_MAX, description="Where to start.")] = None,
    timestamp: Annotated[
        int | None, Query(ge=0, le=INT64_MAX, description="Start at this time, in milliseconds since 1970.")
    ] = None,
    tail: Annotated[
        int | None, Query(ge=1, le=10_000, description="Only the newest records of each partition, at most so many.")
    ] = None,
    positions: Annotated[
        str | None,
        Query(
            pattern=r"^\d{1,10}:\d{1,19}(,\d{1,10}:\d{1,19})*$",
            max_length=POSITIONS_LENGTH_MAX,
            description=(
                "Next offset of each partition, from `next_offsets`: `0:17,3:4`. Partitions are read in this order."
            ),
        ),
    ] = None,
    topic_id: PositionsTopicId = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Largest number of records in the response.")] = 100,
    max_bytes: Annotated[
        int,
        Query(ge=1, le=64 * 1024 * 1024, description="Approximate limit of bytes of a partition; 64 MiB in all."),
    ] = 1024 * 1024,
    timeout_ms: Annotated[int, Query(ge=0, le=30_000, description="Longest wait if there are no records.")] = 0,
    data_format: Annotated[
        DataType | None,
        Query(alias="format", description="Default: JSON if the value is JSON, text if it is UTF-8, else base64."),
    ] = None,
    committed: Annotated[
        bool, Query(description="Whether records of open and aborted transactions are skipped.")
    ] = False,
) -> ConsumedRecords:
    """Return records, from the first one by default. Continue with `next_offsets`: the server keeps no state.
    `unread_partitions` explains why partitions without the given `offset` are not read. With `topic_id`, offsets of a
    deleted topic are not applied to a new topic of the same name."""
    if sum(choice is not None for choice in (offset, timestamp, tail, positions)) > 1:
        raise ApiProblem(400, "offset, timestamp, tail and positions exclude each other.")
    if partition is not None and positions is not None:
        raise ApiProblem(400, "positions names the partitions itself.")
    if topic_id is not None and positions is None:
        raise ApiProblem(400, "topic_id names the topic of positions, and positions is missing.")
    wanted = Consumption(
        partition=partition,
        offset=offset,
        positions=None if positions is None else _positions(positions),
        topic_id=None if topic_id is None else uuid_from_text(topic_id),
        timestamp=timestamp,
        tail=tail,
        limit=limit,
        max_bytes=max_bytes,
        timeout_ms=timeout_ms,
        data_format=data_format,
        committed=committed,
    )
    return await consume(cluster, topic_name, wanted)


def _positions(text: str) -> dict[int, int]:
    pairs = (pair.split(":") for pair in text.split(","))
    positions = {int(partition): int(offset) for partition, offset in pairs}
    if max(positions) > INT32_MAX or max(positions.values()) > INT64_MAX:
        raise ApiProblem(400, "positions holds a number that is too large.")
    return positions
