"""Configuration of single brokers."""

from __future__ import annotations

from fastapi import APIRouter, Response

from kraft.admin.configs import describe_configs
from kraft_http.models.configs import AlterConfigsBody, BrokerConfigData, BrokerConfigDataList, UpdateConfigBody
from kraft_http.requests.deps import BrokerIdPath, Cluster, ConfigNamePath, Writable, whole
from kraft_http.requests.errors import documented
from kraft_http.routers.clusters import find_broker
from kraft_http.routers.configs.shapes import (
    alter_config,
    broker_config_data,
    broker_target,
    one_config,
    reset_config,
    set_config,
)

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=["Configs"])


@router.get("/brokers/-/configs", summary="List the configuration of every live broker", responses=documented(404))
async def list_all_broker_configs(cluster: Cluster) -> BrokerConfigDataList:
    live = await cluster.kafka.broker_ids()
    told = await cluster.kafka.of_each(
        lambda broker_id: describe_configs(cluster.kafka, broker_target(broker_id)), live
    )
    data = [
        broker_config_data(cluster, broker_id, config)
        for broker_id, configs in zip(live, told, strict=True)
        for config in configs
    ]
    return BrokerConfigDataList(kind="KafkaBrokerConfigList", metadata=whole(cluster.url), data=data)


@router.get("/brokers/{broker_id}/configs", summary="List a broker's configuration", responses=documented(404))
async def list_broker_configs(cluster: Cluster, broker_id: BrokerIdPath) -> BrokerConfigDataList:
    await find_broker(cluster.kafka, broker_id)
    data = [
        broker_config_data(cluster, broker_id, config)
        for config in await describe_configs(cluster.kafka, broker_target(broker_id))
    ]
    return BrokerConfigDataList(kind="KafkaBrokerConfigList", metadata=whole(cluster.url), data=data)


@router.post(
    "/brokers/{broker_id}/configs:alter",
    status_code=204,
    summary="Alter a broker's configuration",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def alter_broker_configs(cluster: Cluster, broker_id: BrokerIdPath, body: AlterConfigsBody) -> Response:
    await find_broker(cluster.kafka, broker_id)
    return await alter_config(cluster, broker_target(broker_id), body)


@router.get("/brokers/{broker_id}/configs/{name}", summary="Read one key of a broker", responses=documented(404))
async def get_broker_config(cluster: Cluster, broker_id: BrokerIdPath, name: ConfigNamePath) -> BrokerConfigData:
    await find_broker(cluster.kafka, broker_id)
    return broker_config_data(cluster, broker_id, await one_config(cluster, broker_target(broker_id), name))


@router.put(
    "/brokers/{broker_id}/configs/{name}",
    status_code=204,
    summary="Set one key of a broker",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def put_broker_config(
    cluster: Cluster, broker_id: BrokerIdPath, name: ConfigNamePath, body: UpdateConfigBody
) -> Response:
    await find_broker(cluster.kafka, broker_id)
    return await set_config(cluster, broker_target(broker_id), name, body.value)


@router.delete(
    "/brokers/{broker_id}/configs/{name}",
    status_code=204,
    summary="Reset one key of a broker",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def delete_broker_config(cluster: Cluster, broker_id: BrokerIdPath, name: ConfigNamePath) -> Response:
    await find_broker(cluster.kafka, broker_id)
    return await reset_config(cluster, broker_target(broker_id), name)
