"""Copy committed offsets of consumer groups from a mirrored cluster to the target cluster, so that a group can move
there.

An offset at the target never goes back. So a group that was reset to earlier offsets at the source does not read that
part again at the target. A group with members at the target is not changed: it has already moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.common.java_pattern import java_pattern
from kraft.mirror.names import GROUPS_EXCLUDED
from kraft.mirror.sync_points import Points, translated
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.cluster_requests import SECONDS_MAX, answered
from kraft.spark.jobs.running import JobFailed, Notice, Say
from kraft.spark.source.options import EARLIEST, LATEST
from kraft.spark.source.wire_look_ups import WireLookUps

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


PointsOf = Callable[[], Mapping[TopicPartition, Points]]
"""Returns the offset mappings of all copied partitions. A partition without a mapping so far is left out."""


class GroupSync:
    """Copies the offsets of the groups whose whole names match `pattern`."""

    def __init__(self, source: Access, target: Access, pattern: str, points: PointsOf, say: Say) -> None:
        self.source, self.target = admin_of(source), admin_of(target)
        self.target_at = target
        self.pattern = java_pattern(f"^(?:{pattern})$")
        self.points = points
        self.say = say
        self.told: dict[str, None] = {}

    def run(self) -> None:
        """Copy the offsets once. A group that cannot be written is reported once. Raises JobFailed if a cluster does
        not answer."""
        from confluent_kafka import KafkaException

        try:
            for group in self.groups():
                self.copy(group)
        except KafkaException as problem:
            raise JobFailed(f"offsets of consumer groups: {problem.args[0].str()}") from problem

    def groups(self) -> list[str]:
        found = answered(self.source.list_consumer_groups(request_timeout=SECONDS_MAX), "consumer groups")
        names = sorted(each.group_id for each in found.valid)
        return [each for each in names if self.pattern.search(each) and not GROUPS_EXCLUDED.fullmatch(each)]

    def copy(self, group: str) -> None:
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
        from confluent_kafka import TopicPartition as Theirs

        points, read = self.points(), committed(self.source, group)
        chosen = {each: offset for each, offset in read.items() if each in points}
        if not chosen:
            return
        begins, there = self.begins(list(chosen)), committed(self.target, group)
        wanted = {
            each: max(translated(points[each], offset) or 0, begins[each]) for each, offset in sorted(chosen.items())
        }
        ahead = [Theirs(*each, offset) for each, offset in wanted.items() if offset > there.get(each, -1)]
        if not ahead:
            return
        request = [ConsumerGroupTopicPartitions(group, ahead)]
        try:
            written = answered(self.target.alter_consumer_group_offsets(request)[group], f"offsets of group {group}")
            refused = next((each.error for each in written.topic_partitions if each.error is not None), None)
        except KafkaException as problem:
            refused = problem.args[0]
        if refused is not None and group not in self.told:
            self.told[group] = None
            self.say(
                Notice(f"offsets of group {group} were not committed at the target: {refused.str()}", is_warning=True)
            )

    def begins(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offsets of the copy."""
        return list_offsets(self.target_at, partitions, latest=False)


def admin_of(at: Access) -> AdminClient:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": at.bootstrap, **at.security.librdkafka()})


def committed(admin: AdminClient, group: str) -> dict[TopicPartition, int]:
    """Return a group's committed offsets; none if the group does not exist. Raises KafkaException."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

    try:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = answered(asked[group], f"offsets of group {group}")
    except KafkaException as problem:
        if problem.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return {}
        raise
    for each in found.topic_partitions:
        if each.error is not None:
            raise KafkaException(each.error)  # Without it, the partition would look as if nothing were committed.
    return {
        TopicPartition(each.topic, each.partition): each.offset for each in found.topic_partitions if each.offset >= 0
    }


def list_offsets(at: Access, partitions: list[TopicPartition], *, latest: bool) -> dict[TopicPartition, int]:
    """Return the log end or log start offsets. Waits for new partitions and for leader elections. Raises JobFailed."""
    wanted = dict.fromkeys(partitions, LATEST if latest else EARLIEST)
    try:
        with closing(WireLookUps(at.bootstrap, at.security)) as look_ups:
            return look_ups.list_offsets(wanted, committed=False)
    except (OSError, KraftError) as problem:
        raise JobFailed(f"offsets at {at.bootstrap}: {problem}") from problem
