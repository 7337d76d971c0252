"""Clients that push their own metrics (KIP-714)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from kraft_http.models.common import UnansweredBrokers


class ClientData(BaseModel):
    """A client and the largest values that it measures. A value is null if the client does not measure it."""

    instance_id: str = Field(description="22 characters of URL-safe base64, which a broker gave it.")
    client_id: str
    software_name: str = Field(examples=["librdkafka"])
    software_version: str
    address: str
    port: str = Field(description="Empty if it is not known.")
    broker_id: int = Field(description="The broker to which it pushes.")
    nodes: list[int] = Field(description="The brokers to which it sends requests, as far as it tells.")
    subscriptions: list[str] = Field(description="The client-metrics subscriptions that cover it.")
    interval_ms: int
    idle_ms: int = Field(description="Time since its last request about metrics.")
    pushes: int
    terminating: bool = Field(description="Whether it has said that it ends.")
    error_code: int = Field(description="Kafka's code of its last request about metrics.")
    metrics_count: int
    left_out: int = Field(description="Numbers beyond a bound in its last push.")
    latency_ms: float | None = Field(description="Average latency of its requests.")
    throttle_ms: float | None
    record_rate: float | None = Field(description="Records a second, sent or consumed.")
    errors: float | None = Field(description="Records that it could not send since its start.")
    lag: float | None = Field(description="Records between a consumer and the end of a partition.")
    produce_latency_ms: float | None = Field(description="Average latency of its Produce requests.")
    fetch_latency_ms: float | None = Field(
        description="Average latency of its Fetch requests, with the time that they wait for records."
    )
    rebalances: float | None = Field(description="Rebalances of its group since its start.")
    rebalance_ms: float | None = Field(description="Time that those took.")


class ClientDataList(BaseModel):
    clients_count: int = Field(
        description="Number of all clients. Each broker lists the thousand with the largest latency."
    )
    data: list[ClientData]
    unanswered_brokers: UnansweredBrokers


class ClientMetricData(BaseModel):
    name: str
    attributes: dict[str, str]
    value: float
    type: Literal["counter", "gauge"]


class ClientReportData(BaseModel):
    client: ClientData
    labels: dict[str, str] = Field(description="What the client says of itself, such as its group.")
    metrics: list[ClientMetricData]
    unanswered_brokers: UnansweredBrokers
