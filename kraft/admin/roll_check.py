"""The findings that decide whether the nodes of a cluster of Apache Kafka can be replaced by nodes of kraft, one by
one. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kraft.admin.roll_facts import RollFacts
from kraft.common.config.node.layers import ConfigFile
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import Surroundings, judge_files
from kraft.common.config.properties import parse_properties
from kraft.common.config.types import split_list
from kraft.common.features import METADATA_VERSION, unsupported
from kraft.common.metadata_versions import METADATA_VERSION_MIN, METADATA_VERSIONS

FINE: Final = "fine"
CHANGES: Final = "changes"
"""The verdict on a difference from Kafka that does not prevent a roll."""
STOPS: Final = "stops it"
NAMED_MAX: Final = 5
"""Limit of things named in a finding. Further ones are counted."""
NO_DIRECTORY: Final = bytes(16)
_WITHOUT_LOGIN: Final = ("PLAINTEXT", "SSL")
_KERBEROS: Final = "GSSAPI"
_MESSAGE: Final = re.compile(r"(?P<line>\d+): (?P<sentence>.*)", re.DOTALL)


class RollFinding(NamedTuple):
    subject: str
    verdict: str
    finding: str
    remedy: str = ""
    """What to do; empty if nothing needs to be done."""


def is_safe(findings: Iterable[RollFinding]) -> bool:
    return all(finding.verdict != STOPS for finding in findings)


def judge_cluster(facts: RollFacts) -> list[RollFinding]:
    return [
        *_features(facts),
        _quorum(facts),
        *_partitions(facts),
        *_tiers(facts),
        *_groups(facts),
        _permissions(facts),
        *_brokers(facts.settings),
    ]


def judge_file(
    file: ConfigFile,
    surroundings: Surroundings | None = None,
    faults_of: Callable[[NodeConfig], Sequence[str]] = lambda _: (),
) -> list[RollFinding]:
    """The findings on each key of a properties file, with its line. `faults_of` returns the faults that a node finds
    after it has read its configuration, such as invalid key files."""
    fates, general = _fates(file, surroundings, faults_of)
    named = file.path.rpartition("/")[2]
    differing = [
        RollFinding(f"{named}:{line}", verdict, sentence, _remedy(verdict))
        for line, (_, verdict, sentence) in sorted(fates.items())
        if verdict != FINE
    ]
    same = sum(verdict == FINE for _, verdict, _ in fates.values())
    return [
        *differing,
        *(RollFinding(named, STOPS, sentence, _remedy(STOPS)) for sentence in general),
        RollFinding(named, FINE, f"{_counted(same, 'key')} mean the same as in Kafka"),
    ]


def _remedy(verdict: str) -> str:
    return "change the configuration before this node is replaced" if verdict == STOPS else ""


def _features(facts: RollFacts) -> list[RollFinding]:
    finalized = {each.name: each.level for each in facts.features if each.level}
    level = finalized.get(METADATA_VERSION, 0)
    if level < METADATA_VERSION_MIN.level:
        return [
            RollFinding(
                METADATA_VERSION,
                STOPS,
                f"{METADATA_VERSION} is {level}, and the lowest that kraft serves is {METADATA_VERSION_MIN.level}",
                f"raise it with Kafka's kafka-features.sh to {METADATA_VERSION_MIN.name} or higher first",
            )
        ]
    if unknown := unsupported(finalized):
        remedy = "lower it with Kafka's kafka-features.sh"
        return [RollFinding("features", STOPS, sentence, remedy) for sentence in unknown]
    name = next((each.name for each in METADATA_VERSIONS if each.level == level), "")
    others = ", ".join(f"{each} {at}" for each, at in sorted(finalized.items()) if each != METADATA_VERSION)
    return [RollFinding("features", FINE, f"{METADATA_VERSION} {level} ({name})" + (f", {others}" if others else ""))]


def _quorum(facts: RollFacts) -> RollFinding:
    voters = facts.quorum.voters
    kind = "static" if all(each.directory_id == NO_DIRECTORY for each in voters) else "dynamic"
    text = f"{_counted(len(voters), f'{kind} voter')}: {','.join(str(each.node_id) for each in voters)}"
    if len(voters) < 3:
        return RollFinding("quorum", CHANGES, f"{text}. While a voter is replaced the cluster has no active controller")
    return RollFinding("quorum", FINE, text)


def _partitions(facts: RollFacts) -> list[RollFinding]:
    behind, alone = [], []
    for topic in facts.topics:
        for each in topic.partitions:
            name = f"{topic.name}-{each.index}"
            if each.leader < 0 or len(each.in_sync) < len(each.replicas):
                behind.append(name)
            elif len(each.replicas) <= facts.minima.get(topic.name, 1):
                alone.append(name)
    found = []
    if behind:
        remedy = "wait until every replica is in sync, also between two nodes"
        found.append(
            RollFinding("partitions", STOPS, f"replicas are missing from the in-sync set of {_named(behind)}", remedy)
        )
    if alone:
        found.append(
            RollFinding(
                "partitions",
                CHANGES,
                f"not writable while a node with a replica is replaced: {_named(alone)}",
                "add a replica, or lower min.insync.replicas meanwhile",
            )
        )
    total = sum(len(topic.partitions) for topic in facts.topics)
    return found or [RollFinding("partitions", FINE, f"{_counted(total, 'partition')}, all replicas in sync")]


def _tiers(facts: RollFacts) -> list[RollFinding]:
    if not facts.tiered:
        return []
    remedy = "copy such topics with kraft mirror to a cluster of kraft instead"
    finding = f"segments in remote storage are written by a plugin: {_named(facts.tiered)}"
    return [RollFinding("tiered topics", STOPS, finding, remedy)]


def _groups(facts: RollFacts) -> list[RollFinding]:
    kinds = Counter((each.type or "classic").lower() for each in facts.groups)
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return [RollFinding("groups", FINE, f"groups by protocol: {counted}")] if counted else []


def _permissions(facts: RollFacts) -> RollFinding:
    authorizer = "no authorizer" if facts.permissions is None else f"{facts.permissions} access control entries"
    return RollFinding("security", FINE, f"{authorizer}, {_counted(facts.users, 'user')} of SCRAM")


def _brokers(settings: Mapping[int, Mapping[str, str]]) -> list[RollFinding]:
    """The findings on the settings that brokers report. Each finding names the brokers that have the setting."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    same: dict[int, int] = {}
    for broker, texts in sorted(settings.items()):
        written = "".join(f"{name}={_escaped(text)}\n" for name, text in sorted(texts.items()))
        fates, general = _fates(ConfigFile("broker", written))
        for _, verdict, sentence in fates.values():
            if verdict != FINE:
                found[(verdict, sentence)].append(broker)
        for sentence in general:
            found[(STOPS, sentence)].append(broker)
        same[broker] = sum(verdict == FINE for _, verdict, _ in fates.values())
    rows = [
        RollFinding(_brokers_named(brokers), verdict, sentence, _remedy(verdict))
        for (verdict, sentence), brokers in sorted(found.items(), key=lambda each: each[0][0] != STOPS)
    ]
    by_count = defaultdict(list)
    for broker, count in same.items():
        by_count[count].append(broker)
    return rows + [
        RollFinding(_brokers_named(brokers), FINE, f"{_counted(count, 'setting')} mean the same as in Kafka")
        for count, brokers in by_count.items()
    ]


def _brokers_named(brokers: Sequence[int]) -> str:
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {','.join(map(str, brokers))}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _fates(
    file: ConfigFile,
    surroundings: Surroundings | None = None,
    faults_of: Callable[[NodeConfig], Sequence[str]] = lambda _: (),
) -> tuple[dict[int, tuple[str, str, str]], list[str]]:
    """The key, verdict and sentence of each line, and the problems that belong to no line. They are the messages with
    which a node would start, or refuse to start."""
    entries = parse_properties(file.text)
    fates = {entry.line: (entry.key, FINE, "") for entry in entries}
    general: list[str] = []
    problems = _kerberos(file, {entry.key: (entry.line, entry.value) for entry in entries})
    judged = judge_files([file], surroundings)
    problems += [*judged.problems, *faults_of(judged.config)]
    for verdict, sentences in ((CHANGES, judged.warnings), (STOPS, problems)):
        for sentence in sentences:
            message = _MESSAGE.fullmatch(sentence.removeprefix(f"{file.path}:"))
            line = int(message["line"]) if message is not None else 0
            if message is not None and line in fates:
                fates[line] = (fates[line][0], verdict, message["sentence"])
            elif verdict == STOPS:
                general.append(sentence)
    return fates, general


def _kerberos(file: ConfigFile, entries: Mapping[str, tuple[int, str]]) -> list[str]:
    """A problem for each key that lets clients or nodes log in by Kerberos, if a listener asks for logins."""
    protocols = entries.get("listener.security.protocol.map", (0, ""))[1]
    listened = {each.partition(":")[0].strip() for each in split_list(entries.get("listeners", (0, ""))[1])}
    asks = [
        pair
        for pair in split_list(protocols)
        if pair.partition(":")[0].strip() in listened and pair.rpartition(":")[2].strip() not in _WITHOUT_LOGIN
    ] or [name for name in sorted(listened) if name.startswith("SASL_")]
    if not asks:
        return []
    sentence = "Kerberos (GSSAPI) is not served; log in by SCRAM, PLAIN or OAUTHBEARER"
    names = [
        name for name in entries if name.endswith(("sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol"))
    ]
    found = [
        f"{file.path}:{entries[name][0]}: {name}: {sentence}"
        for name in names
        if _KERBEROS in split_list(entries[name][1].upper())
    ]
    if not any(name.endswith("sasl.enabled.mechanisms") for name in names):
        found.append(f"sasl.enabled.mechanisms is GSSAPI by default: {sentence}")
    return found


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _named(names: Sequence[str]) -> str:
    further = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + further
