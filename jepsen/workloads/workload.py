"""Workloads: each is a list of clients and the topics that they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from jepsen.checker.operations import Partition
from jepsen.db import Cluster
from jepsen.history import Recorder
from jepsen.observer import Observer
from jepsen.workloads.aio import AioProducer, AioReader
from jepsen.workloads.client import Client
from jepsen.workloads.losses import LossWatch
from jepsen.workloads.rdkafka import RdMember, RdProducer, RdReader
from jepsen.workloads.share import RdShareMember
from jepsen.workloads.share_starts import ShareStartWatch
from jepsen.workloads.topics import TopicMaker
from jepsen.workloads.transactions import RdTransactor, RdTransformer, Transactional
from jepsen.workloads.watermarks import Watermarks

GROUP = "readers"
SHARE_GROUP = "workers"
TOPIC = "events"
OUTPUTS = "outputs"
TRANSFORMERS = "transformers"
PARTITIONS = 4


@dataclass(slots=True, kw_only=True)
class Setting:
    """The arguments from which a workload is built."""

    cluster: Cluster
    recorder: Recorder
    observer: Observer
    seed: int
    rate: float

    @property
    def places(self) -> list[Partition]:
        return [(TOPIC, partition) for partition in range(PARTITIONS)]

    @property
    def outputs(self) -> list[Partition]:
        """The partitions of the topic that is written only in transactions, in workloads that have it."""
        return [(OUTPUTS, partition) for partition in range(PARTITIONS)]


@dataclass(slots=True, kw_only=True)
class Clients:
    """The clients of a workload. Producers are stopped first, then transformers, then readers."""

    producers: list[Client] = field(default_factory=list)
    transformers: list[Transactional] = field(default_factory=list)
    readers: list[Client] = field(default_factory=list)
    makers: list[TopicMaker] = field(default_factory=list)
    watches: list[LossWatch] = field(default_factory=list)

    @property
    def groups(self) -> set[str]:
        members = {client.group for client in self.readers if isinstance(client, RdMember)}
        return members | {client.group for client in self.transformers if isinstance(client, RdTransformer)}

    def all(self) -> list[Client]:
        return [*self.producers, *self.transformers, *self.makers, *self.readers, *self.watches]


def queue(setting: Setting) -> Clients:
    """The workload of everything: two kinds of producers, readers, a group, ends, topics."""
    common = (setting.recorder, setting.cluster.servers, setting.seed)
    return Clients(
        producers=[
            RdProducer("rd-a", *common, setting.places, setting.rate),
            RdProducer("rd-b", *common, setting.places, setting.rate),
            AioProducer("aio-a", *common, setting.places, setting.rate / 4),
        ],
        readers=[
            RdReader("reader-rd", *common, setting.places),
            AioReader("reader-aio", *common, setting.places),
            *(RdMember(f"member-{name}", *common, [TOPIC], GROUP) for name in ("a", "b")),
            Watermarks("ends", setting.recorder, setting.cluster, setting.observer, setting.seed, setting.places),
        ],
        makers=[TopicMaker("maker", *common)],
    )


def producers(setting: Setting) -> Clients:
    """Idempotent producers alone, faster, and one reader."""
    common = (setting.recorder, setting.cluster.servers, setting.seed)
    return Clients(
        producers=[
            *(RdProducer(f"rd-{name}", *common, setting.places, setting.rate * 1.5) for name in "abc"),
            AioProducer("aio-a", *common, setting.places, 20),
        ],
        readers=[RdReader("reader-rd", *common, setting.places, again=0.0)],
    )


def groups(setting: Setting) -> Clients:
    """A group whose members come and go and commit."""
    common = (setting.recorder, setting.cluster.servers, setting.seed)
    return Clients(
        producers=[RdProducer("rd-a", *common, setting.places, setting.rate)],
        readers=[
            *(RdMember(f"member-{name}", *common, [TOPIC], GROUP, leave=0.08) for name in "abc"),
            AioReader("reader-aio", *common, setting.places),
        ],
    )


def consumers(setting: Setting) -> Clients:
    """A consumer group of KIP-848 whose members come and go and commit."""
    common = (setting.recorder, setting.cluster.servers, setting.seed)
    return Clients(
        producers=[RdProducer("rd-a", *common, setting.places, setting.rate)],
        readers=[
            *(RdMember(f"member-{name}", *common, [TOPIC], GROUP, leave=0.08, protocol="consumer") for name in "abc"),
            AioReader("reader-aio", *common, setting.places),
        ],
    )


def shares(setting: Setting) -> Clients:
    """A share group whose members acknowledge, sleep, close and die, with more members than a partition could have."""
    common = (setting.recorder, setting.cluster.servers, setting.seed)
    return Clients(
        producers=[RdProducer("rd-a", *common, setting.places, setting.rate)],
        readers=[
            AioReader("reader-aio", *common, setting.places),
            *(RdShareMember(f"worker-{name}", *common, [TOPIC], SHARE_GROUP) for name in "abcde"),
            ShareStartWatch("starts", setting.recorder, setting.cluster, setting.seed, setting.places, SHARE_GROUP),
        ],
    )


def topics(setting: Setting) -> Clients:
    """Topics made, grown and deleted by two administrators, beside a little traffic."""
    common = (setting.recorder, setting.cluster.servers, setting.seed)
    return Clients(
        producers=[RdProducer("rd-a", *common, setting.places, 50)],
        readers=[RdReader("reader-rd", *common, setting.places)],
        makers=[TopicMaker(f"maker-{name}", *common, period=0.15) for name in "ab"],
    )


def offsets(setting: Setting) -> Clients:
    """Clients that list the ends of partitions all the time, while two producers write."""
    common = (setting.recorder, setting.cluster.servers, setting.seed)
    watchers = [
        Watermarks(f"ends-{name}", setting.recorder, setting.cluster, setting.observer, setting.seed, setting.places)
        for name in "abc"
    ]
    return Clients(
        producers=[
            RdProducer("rd-a", *common, setting.places, setting.rate),
            AioProducer("aio-a", *common, setting.places, 20),
        ],
        readers=[RdReader("reader-rd", *common, setting.places), *watchers],
    )


def unclean(setting: Setting) -> Clients:
    """Producers of a topic with unclean elections, whose acknowledged records may be lost, and an operator who fetches
    the loss reports."""
    clients = producers(setting)
    if setting.cluster.target.name == "kraft":
        clients.watches = [LossWatch("losses", setting.recorder, setting.cluster, setting.seed, TOPIC)]
    return clients


def tiered(setting: Setting) -> Clients:
    """A topic whose older part is only in an object store, and readers that keep reading it from the beginning."""
    clients = queue(setting)
    clients.readers.append(
        RdReader("reader-again", setting.recorder, setting.cluster.servers, setting.seed, setting.places, again=0.02)
    )
    clients.makers = []
    return clients


def transactions(setting: Setting) -> Clients:
    """Transactions of a few records, and a group that writes what it reads from one topic to another, exactly once."""
    common = (setting.recorder, setting.cluster.servers, setting.seed)
    transformer = (*common, TOPIC, TRANSFORMERS, setting.outputs)
    return Clients(
        producers=[RdProducer("rd-a", *common, setting.places, setting.rate / 2)],
        transformers=[
            *(RdTransactor(f"transactor-{name}", *common, setting.outputs) for name in "ab"),
            *(RdTransformer(f"transformer-{name}", *transformer) for name in "ab"),
        ],
        readers=[
            RdReader("reader-rd", *common, setting.places),
            *(RdReader(f"committed-{name}", *common, setting.outputs, isolation="read_committed") for name in "ab"),
        ],
    )


WORKLOADS: dict[str, Callable[[Setting], Clients]] = {
    "queue": queue,
    "producers": producers,
    "groups": groups,
    "consumers": consumers,
    "shares": shares,
    "topics": topics,
    "offsets": offsets,
    "solo": producers,
    "unclean": unclean,
    "balanced": unclean,
    "aggressive": unclean,
    "tiered": tiered,
    "transactions": transactions,
}
TRANSACTIONAL = frozenset({"transactions"})
"""Workloads with a further topic that is written only in transactions."""
SHARES = frozenset({"shares"})
"""Workloads with a share group that must finish every record."""
UNCLEAN: dict[str, dict[str, str]] = {
    "unclean": {"unclean.leader.election.enable": "true"},
    "balanced": {"kraft.unclean.recovery.strategy": "balanced"},
    "aggressive": {"kraft.unclean.recovery.strategy": "aggressive"},
}
"""Workloads whose topic allows unclean elections, and so losses, with the configs that allow them. Apache Kafka has
only the first of these configs."""
SOLO = frozenset({"solo"})
"""Workloads whose topic has one replica, so that no other replica has what its disk lost."""
TIERED: dict[str, dict[str, str]] = {
    "tiered": {
        "remote.storage.enable": "true",
        "internal.segment.bytes": str(32 << 10),
        "local.retention.bytes": str(40 << 10),
        "file.delete.delay.ms": "100",
    }
}
"""Workloads whose topic is tiered, with its configs. Only kraft runs them: Apache Kafka comes without a plugin for
object stores."""
