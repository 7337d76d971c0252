"""Runs cases against a target and gives what was answered, masked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kraft.protocol.schema import flexible_in
from tests.vectors.case import BROKER, CONTROLLER, Ask, Case, Receive, Settle
from tests.vectors.masks import Masks
from tests.vectors.plain import message_class
from tests.vectors.wire import CLOSED, SILENT, Connection

PATIENCE_S = 20.0
LOADING = frozenset({14, 15, 16})  # coordinator is loading, not available, elsewhere: true only for a moment
GROUP_APIS = frozenset(
    {
        "ConsumerGroupDescribe",
        "ConsumerGroupHeartbeat",
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetFetch",
        "OffsetDelete",
        "DescribeGroups",
        "DeleteGroups",
        "FindCoordinator",
        "InitProducerId",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "EndTxn",
        "DescribeTransactions",
        "ListTransactions",
        "TxnOffsetCommit",
    }
)


@dataclass(frozen=True)
class Target:
    """Where a cluster of one listens: for clients and for the controller's own requests."""

    broker: tuple[str, int]
    controller: tuple[str, int]

    @classmethod
    def parse(cls, broker: str, controller: str) -> Target:
        def address(text: str) -> tuple[str, int]:
            host, _, port = text.rpartition(":")
            return host, int(port)

        return cls(address(broker), address(controller))

    def advertised(self) -> dict[str, dict[int, tuple[int, int]]]:
        """The versions that each listener advertises."""
        found = {}
        for name, address in ((BROKER, self.broker), (CONTROLLER, self.controller)):
            connection = Connection(address)
            connection.send("ApiVersions", 3, {"client_software_name": "vectors", "client_software_version": "1"})
            answer = connection.receive("ApiVersions", 3)
            connection.close()
            assert isinstance(answer, dict), f"{name} at {address}: {answer}"
            found[name] = {each["api_key"]: (each["min_version"], each["max_version"]) for each in answer["api_keys"]}
        return found

    def wait_for_coordinators(self) -> None:
        """The coordinators' topics are made on first use; after this they serve."""
        self._wait_for_transactions()
        connection = Connection(self.broker)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            connection.send("FindCoordinator", 3, {"key": "vectors-prelude", "key_type": 0})
            found = connection.receive("FindCoordinator", 3)
            connection.send("OffsetFetch", 7, {"group_id": "vectors-prelude", "topics": None})
            fetched = connection.receive("OffsetFetch", 7)
            if (
                isinstance(found, dict)
                and found["error_code"] == 0
                and isinstance(fetched, dict)
                and fetched["error_code"] == 0
            ):
                connection.close()
                return
            time.sleep(0.1)
        raise TimeoutError("no group coordinator")

    def _wait_for_transactions(self) -> None:
        connection = Connection(self.broker)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            connection.send("FindCoordinator", 3, {"key": "vectors-prelude", "key_type": 1})
            found = connection.receive("FindCoordinator", 3)
            connection.send("ListTransactions", 0, {"state_filters": [], "producer_id_filters": []})
            listed = connection.receive("ListTransactions", 0)
            if all(isinstance(each, dict) and each["error_code"] == 0 for each in (found, listed)):
                connection.close()
                return
            time.sleep(0.1)
        raise TimeoutError("no transaction coordinator")


class CaseRun:
    """One case in one version: its names, connections and saved values."""

    def __init__(self, target: Target, case: Case, version: int) -> None:
        self.target = target
        self.case = case
        self.version = version
        self.saved: dict[str, Any] = {}
        self.connections: dict[tuple[str, str], Connection] = {}
        self.pending: dict[str, tuple[Connection, str, int]] = {}

    def run(self) -> list[Any]:
        """The masked answers of all steps that are shown, in order."""
        try:
            return [answer for step in self.case.steps for answer in self.step(step)]
        finally:
            for connection in self.connections.values():
                connection.close()

    def step(self, step: Ask | Receive | Settle) -> Iterator[Any]:
        if isinstance(step, Settle):
            self.settle(step)
            return
        if isinstance(step, Receive):
            connection, api, version = self.pending.pop(step.on)
            yield self.taken(connection.receive(api, version), step)
            return
        api, version = step.api or self.case.api, self.version if step.version is None else step.version
        time.sleep(step.pause_s)
        connection = self.connection(step)
        if step.later:
            self.send(connection, step, api, version)
            self.pending[step.on] = (connection, api, version)
            return
        answer = self.ask(connection, step, api, version)
        shown = self.taken(answer, step)
        if not step.hidden:
            yield shown

    def ask(self, connection: Connection, step: Ask, api: str, version: int) -> dict[str, Any] | str:
        """The answer, asked again while a coordinator loads."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.send(connection, step, api, version)
            answer = connection.receive(
                api, version if step.answered is None else step.answered, 0.3 if step.silent else 15
            )
            is_early = step.until is not None and step.until not in error_codes(answer)
            is_loading = api in GROUP_APIS and any(code in LOADING for code in error_codes(answer))
            if not (is_early or is_loading) or time.monotonic() > deadline:
                return answer
            time.sleep(0.05)

    def send(self, connection: Connection, step: Ask, api: str, version: int) -> None:
        if isinstance(step.body, bytes):
            request = message_class(f"{api}Request")
            connection.send_raw(
                request.API_KEY,
                version,
                step.body,
                flexible=flexible_in(request, version) if step.flexible is None else step.flexible,
            )
        else:
            connection.send(api, version, self.resolve(step.body))

    def connection(self, step: Ask) -> Connection:
        key = (step.listener, step.on)
        if key not in self.connections:
            self.connections[key] = Connection(
                self.target.broker if step.listener == BROKER else self.target.controller
            )
        return self.connections[key]

    def taken(self, answer: dict[str, Any] | str, step: Ask | Receive) -> Any:
        """The answer masked; what the step saves is saved first, so that it shows under its name."""
        if answer in (CLOSED, SILENT):
            return answer
        assert isinstance(answer, dict)
        for name, path in step.save.items():
            value: Any = answer
            for part in path.split("."):
                value = value[int(part)] if isinstance(value, list) else value[part]
            self.saved[name] = value
        return Masks(self.saved, step.mask).of(answer)

    def settle(self, step: Settle) -> None:
        name = self.resolve(step.topic)
        connection = self.connection(Ask({}))
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            connection.send("Metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": False})
            answer = connection.receive("Metadata", 12)
            assert isinstance(answer, dict), answer
            topic = answer["topics"][0]
            led = topic["error_code"] == 0 and all(
                each["error_code"] == 0 and each["leader_id"] >= 0 for each in topic["partitions"]
            )
            if step.gone and topic["error_code"] == 3:
                return
            if not step.gone and led and self.log_made(connection, name, len(topic["partitions"])):
                self.saved[f"{step.topic[1:]}.id"] = topic["topic_id"]
                return
            time.sleep(0.02)
        raise TimeoutError(f"{name} did not settle")

    def log_made(self, connection: Connection, topic: str, partitions: int) -> bool:
        """The broker serves the partitions: it may learn of its leadership after Metadata shows it."""
        wanted = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        connection.send("ListOffsets", 5, {"replica_id": -1, "topics": [{"name": topic, "partitions": wanted}]})
        answer = connection.receive("ListOffsets", 5)
        return isinstance(answer, dict) and all(code == 0 for code in error_codes(answer))

    def resolve(self, value: Any) -> Any:
        """`$names` replaced, in all of a body."""
        if isinstance(value, Mapping):
            return {name: self.resolve(each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.resolve(each) for each in value]
        if isinstance(value, str) and value.startswith("$"):
            return self.named(value[1:])
        return value

    def named(self, name: str) -> Any:
        if name in self.saved:
            return self.saved[name]
        if name.endswith(".id"):
            return bytes(16)
        made = f"{self.case.name}-{name}-{self.version}"
        self.saved[name] = made
        return made


def error_codes(answer: Any) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name == "error_code":
                yield value
            else:
                yield from error_codes(value)
    elif isinstance(answer, list):
        for each in answer:
            yield from error_codes(each)


def versions_of(case: Case, advertised: Mapping[str, Mapping[int, tuple[int, int]]]) -> range:
    """The versions to run: what the schema has, the listener advertises, and the case allows."""
    request = message_class(f"{case.api}Request")
    listener = next(
        (
            step.listener
            for step in case.steps
            if isinstance(step, Ask) and step.api in (None, case.api) and not step.hidden
        ),
        BROKER,
    )
    low, high = request.VALID_VERSIONS
    offered = advertised[listener].get(request.API_KEY, (0, -1))
    narrowed = case.versions or (0, high)
    return range(max(low, offered[0], narrowed[0]), min(high, offered[1], narrowed[1]) + 1)
