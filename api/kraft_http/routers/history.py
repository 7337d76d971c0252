"""Sizes of topics, and the last hour of traffic and lag, as the nodes keep it: for lists and charts without a metrics
database."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from kraft_http.models.common import UnansweredBroker
from kraft_http.models.operations import HistoryData, TierData, TopicFactsData, TopicFactsList
from kraft_http.ports import TierFacts
from kraft_http.requests.deps import Port
from kraft_http.requests.errors import ApiProblem, documented

router = APIRouter(tags=["Operations"])

TOPICS_MAX = 100
UNITS = {
    "records_in": "records a second",
    "bytes_in": "bytes a second",
    "bytes_out": "bytes a second",
    "requests": "requests a second",
    "connections": "connections",
    "busy": "share of the time in which the event loop worked",
    "cpu": "processors",
    "memory_bytes": "bytes",
    "disk_used": "share",
    "lag": "records",
}


@router.get(
    "/v1/history", summary="The last hour of a topic, a group, a broker or the cluster", responses=documented(400, 404)
)
async def get_history(
    port: Port,
    response: Response,
    topic: Annotated[str | None, Query(description="Traffic of this topic.")] = None,
    group: Annotated[str | None, Query(description="Lag of this group.")] = None,
    broker: Annotated[int | None, Query(ge=0, description="Traffic and load of this broker.")] = None,
) -> HistoryData:
    """Return the last hour of a topic, group or broker; without a parameter, of the whole cluster. There is a number
    for every ten seconds, summed over the brokers that keep the series. A node keeps history since its start, for the
    thousand busiest topics and the thousand groups with the largest lag; others have no series. Brokers without an HTTP
    admin keep none."""
    asked = [
        (kind, str(name)) for kind, name in (("topic", topic), ("group", group), ("broker", broker)) if name is not None
    ]
    if len(asked) > 1:
        raise ApiProblem(400, "topic, group and broker exclude each other.")
    found = await port.history(*(asked[0] if asked else ("cluster", "")))
    response.headers["Cache-Control"] = "no-store"
    return HistoryData(
        times_ms=list(found.times_ms),
        series={name: list(values) for name, values in found.series.items()},
        units={name: UNITS[name] for name in found.series},
        unanswered_brokers=[
            UnansweredBroker(broker_id=broker_id, detail="it does not answer, or keeps no history")
            for broker_id in found.silent
        ],
    )


@router.get("/v1/topic-facts", summary="What topics hold and do", responses=documented(400))
async def get_topic_facts(
    port: Port,
    response: Response,
    topic: Annotated[list[str], Query(min_length=1, max_length=TOPICS_MAX, description="Repeatable.")],
) -> TopicFactsList:
    """Return records, bytes and rates of each existing topic, summed over its leaders, and its groups."""
    found = await port.topic_facts(topic)
    response.headers["Cache-Control"] = "no-store"
    return TopicFactsList(
        data=[
            TopicFactsData(
                topic_name=each.name,
                records=each.records,
                leader_bytes=each.leader_bytes,
                replica_bytes=each.replica_bytes,
                records_in=each.records_in,
                bytes_in=each.bytes_in,
                bytes_out=each.bytes_out,
                groups_count=each.groups,
                lag=each.lag,
                tiers=[_tier_data(tier) for tier in each.tiers],
            )
            for each in found.topics
        ],
        unanswered_brokers=[
            UnansweredBroker(broker_id=broker_id, detail="it does not answer") for broker_id in found.silent
        ],
    )


def _tier_data(tier: TierFacts) -> TierData:
    return TierData(
        partition_id=tier.partition,
        local_bytes=tier.local_bytes,
        remote_bytes=tier.remote_bytes,
        copy_lag_bytes=tier.copy_lag_bytes,
        copy_lag_segments=tier.copy_lag_segments,
        last_error=tier.last_error,
    )
