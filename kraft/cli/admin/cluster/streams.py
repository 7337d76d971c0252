"""The part of `kraft groups describe` that only streams groups have."""

from __future__ import annotations

from typing import Any

from kraft.admin.streams_groups import InternalTopic, StreamsGroup, StreamsMember, StreamsTasks
from kraft.cli.admin.output import Table


def add_streams(document: dict[str, Any], group: StreamsGroup) -> None:
    """Add what only streams groups have. A member that joined meanwhile is left out."""
    document["assignment_epoch"] = group.assignment_epoch
    document["topology_epoch"] = group.topology_epoch
    document["subtopologies"] = [
        {
            "subtopology_id": each.subtopology_id,
            "source_topics": list(each.source_topics),
            "repartition_source_topics": [_internal_topic(topic) for topic in each.repartition_sources],
            "repartition_sink_topics": list(each.repartition_sinks),
            "changelog_topics": [_internal_topic(topic) for topic in each.changelogs],
        }
        for each in group.subtopologies
    ]
    known = {each.member_id: each for each in group.members}
    document["members"] = [
        each | _streams_member(known[each["member_id"]]) for each in document["members"] if each["member_id"] in known
    ]


def _internal_topic(topic: InternalTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "configs": dict(topic.configs),
    }


def _streams_member(member: StreamsMember) -> dict[str, Any]:
    return {
        "process_id": member.process_id,
        "rack_id": member.rack_id,
        "endpoint": member.endpoint,
        "client_tags": dict(member.tags),
        "topology_epoch": member.topology_epoch,
        "tasks": _tasks(member.tasks),
        "target_tasks": _tasks(member.target),
    }


def _tasks(tasks: StreamsTasks) -> dict[str, list[str]]:
    return {
        "active": [str(task) for task in tasks.active],
        "standby": [str(task) for task in tasks.standby],
        "warmup": [str(task) for task in tasks.warmup],
    }


def streams_tables(group: dict[str, Any]) -> list[Table]:
    """The tables that only streams groups have: the tasks of each member, and the topology."""

    def joined(tasks: list[str]) -> str:
        return " ".join(tasks) or "-"

    members = [
        (
            each["client_id"],
            each["process_id"],
            each["epoch"],
            joined(each["tasks"]["active"]),
            joined(each["tasks"]["standby"]),
            joined(each["tasks"]["warmup"]),
            joined([f"{key}={value}" for key, value in each["client_tags"].items()]),
            each["member_id"],
        )
        for each in group["members"]
    ]
    topics = [
        (
            each["subtopology_id"],
            joined(each["source_topics"]),
            joined([topic["name"] for topic in each["repartition_source_topics"]]),
            joined(each["repartition_sink_topics"]),
            joined([topic["name"] for topic in each["changelog_topics"]]),
        )
        for each in group["subtopologies"]
    ]
    name = group["group_id"]
    columns = ("CLIENT", "PROCESS", "EPOCH", "ACTIVE", "STANDBY", "WARMUP", "TAGS", "MEMBER")
    epoch = "-" if group["topology_epoch"] is None else group["topology_epoch"]
    return [
        Table(columns, members, f"{name}  tasks of the members", frozenset(("PROCESS", "MEMBER"))),
        Table(
            ("SUBTOPOLOGY", "READS", "READS INTERNAL", "WRITES INTERNAL", "CHANGELOGS"),
            topics,
            f"{name}  topology of epoch {epoch}",
        ),
    ]
