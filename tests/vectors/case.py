"""A case: a name, the API it is about, and steps. Cases are values; `runner.py` runs them.

Text that begins with `$` stands for something that differs between runs, and appears under the same name in what is
recorded: `$topic`, `$topic2`, `$group` ... names of this case's own; `$topic.id` the topic's id; `$anything` saved
from an earlier answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

BROKER = "broker"
CONTROLLER = "controller"


@dataclass(frozen=True)
class Ask:
    """Send one request and record the answer.

    `api` and `version` default to the case's. `save` names values of the answer: name -> path such as
    `topics.0.error_code`. `mask` names fields whose values differ between runs for this step. `on` is the connection
    ("a" unless several are needed); with `later`, the answer is taken by `Receive`. `silent` says that no answer is
    due. `hidden` is setup: run, not recorded.
    """

    body: Mapping[str, Any] | bytes
    api: str | None = None
    version: int | None = None
    save: Mapping[str, str] = field(default_factory=dict)
    mask: tuple[str, ...] = ()
    listener: str = BROKER
    on: str = "a"
    # before sending, where a broker learns of a change after it was answered and nothing tells when
    pause_s: float = 0.0
    later: bool = False
    until: int | None = None  # asked again until the answer's error_code is this
    silent: bool = False
    hidden: bool = False
    flexible: bool | None = None  # the header's form, for versions that no schema knows
    answered: int | None = None  # the version of the answer, where it is not the request's


@dataclass(frozen=True)
class Receive:
    """Record the answer to an `Ask` that was sent `later` on this connection."""

    on: str
    save: Mapping[str, str] = field(default_factory=dict)
    mask: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settle:
    """Wait until this topic has leaders, or is gone: brokers learn of changes after the answer."""

    topic: str = "$topic"
    gone: bool = False


Step = Ask | Receive | Settle


@dataclass(frozen=True)
class Case:
    """`versions` narrows the API's versions; without it all that the recorded broker advertises are run."""

    name: str
    api: str
    steps: tuple[Step, ...]
    versions: tuple[int, int] | None = None


def case(name: str, api: str, *steps: Step | Iterable[Step], versions: tuple[int, int] | None = None) -> Case:
    flat: list[Step] = []
    for step in steps:
        flat.extend([step] if isinstance(step, (Ask, Receive, Settle)) else step)
    return Case(name, api, tuple(flat), versions)


# -- setup that many cases share
# ---------------------------------------------------------------------------------------------------------


def create(topic: str = "$topic", partitions: int = 1, **configs: str) -> tuple[Step, ...]:
    """A topic, led and known to the broker."""
    settings = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    body = {
        "topics": [{"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": settings}],
        "timeout_ms": 30000,
    }
    return (Ask(body, api="CreateTopics", version=7, hidden=True), Settle(topic))


def produce_body(
    records: Any, topic: str = "$topic", partition: int = 0, acks: int = -1, **extra: Any
) -> dict[str, Any]:
    data = [{"index": partition, "records": records}]
    return {
        "acks": acks,
        "timeout_ms": 10000,
        "topic_data": [{"name": topic, "topic_id": f"{topic}.id", "partition_data": data}],
        **extra,
    }


def produced(records: Any, topic: str = "$topic", partition: int = 0) -> Ask:
    """Setup: these records are written."""
    return Ask(produce_body(records, topic, partition), api="Produce", version=9, hidden=True)
