"""Cluster-wide configuration of brokers."""

from __future__ import annotations

from fastapi import APIRouter, Response

from kraft.admin.configs import describe_configs
from kraft_http.models.configs import AlterConfigsBody, ClusterConfigData, ClusterConfigDataList, UpdateConfigBody
from kraft_http.requests.deps import Cluster, ConfigNamePath, Writable, whole
from kraft_http.requests.errors import documented
from kraft_http.routers.configs.shapes import (
    CLUSTER_DEFAULT,
    alter_config,
    cluster_config_data,
    one_config,
    reset_config,
    set_config,
)

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=["Configs"])


@router.get("/broker-configs", summary="List the cluster-wide configuration of brokers", responses=documented(404))
async def list_cluster_configs(cluster: Cluster) -> ClusterConfigDataList:
    data = [cluster_config_data(cluster, config) for config in await describe_configs(cluster.kafka, CLUSTER_DEFAULT)]
    return ClusterConfigDataList(kind="KafkaClusterConfigList", metadata=whole(cluster.url), data=data)


@router.post(
    "/broker-configs:alter",
    status_code=204,
    summary="Alter the cluster-wide configuration",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def alter_cluster_configs(cluster: Cluster, body: AlterConfigsBody) -> Response:
    return await alter_config(cluster, CLUSTER_DEFAULT, body)


@router.get("/broker-configs/{name}", summary="Read one cluster-wide key", responses=documented(404))
async def get_cluster_config(cluster: Cluster, name: ConfigNamePath) -> ClusterConfigData:
    return cluster_config_data(cluster, await one_config(cluster, CLUSTER_DEFAULT, name))


@router.put(
    "/broker-configs/{name}",
    status_code=204,
    summary="Set one cluster-wide key",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def put_cluster_config(cluster: Cluster, name: ConfigNamePath, body: UpdateConfigBody) -> Response:
    return await set_config(cluster, CLUSTER_DEFAULT, name, body.value)


@router.delete(
    "/broker-configs/{name}",
    status_code=204,
    summary="Reset one cluster-wide key",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def delete_cluster_config(cluster: Cluster, name: ConfigNamePath) -> Response:
    return await reset_config(cluster, CLUSTER_DEFAULT, name)
