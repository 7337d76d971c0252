"""Configuration of topics."""

from __future__ import annotations

from fastapi import APIRouter, Response

from kraft.admin.configs import describe_configs, describe_many
from kraft.admin.topics import list_topics
from kraft_http.models.configs import AlterConfigsBody, TopicConfigData, TopicConfigDataList, UpdateConfigBody
from kraft_http.requests.deps import Cluster, ConfigNamePath, TopicNamePath, Writable, whole
from kraft_http.requests.errors import documented
from kraft_http.routers.configs.shapes import (
    alter_config,
    one_config,
    reset_config,
    set_config,
    topic_config_data,
    topic_target,
)

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=["Configs"])


@router.get("/topics/-/configs", summary="List the configuration of every topic", responses=documented(404))
async def list_all_topic_configs(cluster: Cluster) -> TopicConfigDataList:
    targets = [topic_target(topic.name) for topic in await list_topics(cluster.kafka)]
    described = await describe_many(cluster.kafka, targets)
    data = [topic_config_data(cluster, target.name, config) for target, configs in described for config in configs]
    return TopicConfigDataList(kind="KafkaTopicConfigList", metadata=whole(cluster.url), data=data)


@router.get("/topics/{topic_name}/configs", summary="List a topic's configuration", responses=documented(404))
async def list_topic_configs(cluster: Cluster, topic_name: TopicNamePath) -> TopicConfigDataList:
    data = [
        topic_config_data(cluster, topic_name, config)
        for config in await describe_configs(cluster.kafka, topic_target(topic_name))
    ]
    return TopicConfigDataList(kind="KafkaTopicConfigList", metadata=whole(cluster.url), data=data)


@router.post(
    "/topics/{topic_name}/configs:alter",
    status_code=204,
    summary="Alter a topic's configuration",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def alter_topic_configs(cluster: Cluster, topic_name: TopicNamePath, body: AlterConfigsBody) -> Response:
    return await alter_config(cluster, topic_target(topic_name), body)


@router.get("/topics/{topic_name}/configs/{name}", summary="Read one key of a topic", responses=documented(404))
async def get_topic_config(cluster: Cluster, topic_name: TopicNamePath, name: ConfigNamePath) -> TopicConfigData:
    return topic_config_data(cluster, topic_name, await one_config(cluster, topic_target(topic_name), name))


@router.put(
    "/topics/{topic_name}/configs/{name}",
    status_code=204,
    summary="Set one key of a topic",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def put_topic_config(
    cluster: Cluster, topic_name: TopicNamePath, name: ConfigNamePath, body: UpdateConfigBody
) -> Response:
    return await set_config(cluster, topic_target(topic_name), name, body.value)


@router.delete(
    "/topics/{topic_name}/configs/{name}",
    status_code=204,
    summary="Reset one key of a topic",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def delete_topic_config(cluster: Cluster, topic_name: TopicNamePath, name: ConfigNamePath) -> Response:
    return await reset_config(cluster, topic_target(topic_name), name)
