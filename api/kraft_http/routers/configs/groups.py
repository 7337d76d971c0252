"""Configuration of consumer groups."""

from __future__ import annotations

from fastapi import APIRouter, Response

from kraft.admin.configs import describe_configs
from kraft_http.models.configs import AlterConfigsBody, GroupConfigDataList
from kraft_http.requests.deps import Cluster, GroupIdPath, Writable, whole
from kraft_http.requests.errors import documented
from kraft_http.routers.configs.shapes import alter_config, group_config_data, group_target

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=["Configs"])


@router.get(
    "/consumer-groups/{consumer_group_id}/configs", summary="List a group's configuration", responses=documented(404)
)
async def list_group_configs(cluster: Cluster, group_id: GroupIdPath) -> GroupConfigDataList:
    data = [
        group_config_data(cluster, group_id, config)
        for config in await describe_configs(cluster.kafka, group_target(group_id))
    ]
    return GroupConfigDataList(kind="KafkaGroupConfigList", metadata=whole(cluster.url), data=data)


@router.post(
    "/consumer-groups/{consumer_group_id}/configs:alter",
    status_code=204,
    summary="Alter a group's configuration",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def alter_group_configs(cluster: Cluster, group_id: GroupIdPath, body: AlterConfigsBody) -> Response:
    return await alter_config(cluster, group_target(group_id), body)
