"""The topics of a job of many topics: given by name, or by a pattern that matches whole names."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from kraft.common.java_pattern import java_pattern
from kraft.mirror.names import TOPICS_EXCLUDED
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.cluster_requests import ask_any
from kraft.spark.jobs.running import JobNotFound
from kraft.spark.jobs.topics import WHAT_TO_DO, SeenTopic, require_topic


class Selection(NamedTuple):
    """The selected topics: `topics`, or the topics that `pattern` matches (a Java regular expression). Exactly one is
    given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None

    def __str__(self) -> str:
        return ", ".join(self.topics) if self.pattern is None else f"pattern {self.pattern}"

    @property
    def option(self) -> dict[str, str]:
        """The source option for the selection."""
        return {"subscribe": ",".join(self.topics)} if self.pattern is None else {"subscribePattern": self.expression}

    @property
    def expression(self) -> str:
        return f"^{TOPICS_EXCLUDED}(?:{self.pattern})$"

    def includes(self, topic: str) -> bool:
        """Whether the topic is selected, if it exists."""
        if self.pattern is None:
            return topic in self.topics
        return java_pattern(self.expression).search(topic) is not None

    def now(self, at: Access) -> dict[str, SeenTopic]:
        """Return the selected topics that exist now. Raises JobFailed, and ValueError for an invalid pattern."""
        chosen = java_pattern(self.expression) if self.pattern is not None else None
        answer = ask_any(at, MetadataRequest(topics=None, allow_auto_topic_creation=False))
        return {
            each.name: SeenTopic(
                answer.cluster_id or at.bootstrap,
                str(uuid.UUID(bytes=bytes(each.topic_id))) if any(each.topic_id) else None,
                len(each.partitions),
            )
            for each in sorted(answer.topics, key=lambda topic: str(topic.name))
            if not each.error_code and (chosen.search(each.name) if chosen is not None else each.name in self.topics)
        }

    def require(self, at: Access, may_lack: frozenset[str] = frozenset()) -> dict[str, SeenTopic]:
        """Return the selected topics; all named ones must exist. Topics of `may_lack` may be missing if any other
        exists. Raises JobNotFound, JobFailed."""
        found = self.now(at)
        missing = [each for each in self.topics if each not in found and not (found and each in may_lack)]
        if len(missing) == 1:
            require_topic(at, missing[0])
        if missing:
            raise JobNotFound(f"topics {', '.join(missing)} do not exist at {at.bootstrap}: {WHAT_TO_DO}")
        return found
