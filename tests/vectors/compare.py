"""Records what a target answers, and compares it with what is recorded, field by field."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.vectors.case import Case
from tests.vectors.cases import MODULES
from tests.vectors.differences import reason_for
from tests.vectors.runner import CaseRun, Target, versions_of

RECORDED = Path(__file__).parent / "recorded"
ABSENT = "<absent>"
Answers = list[Any]
V = TypeVar("V", int, str)


@dataclass(frozen=True)
class Mismatch:
    """One field that differs. `place` is `module/case/version/step/path`."""

    place: str
    recorded: Any
    answered: Any

    def __str__(self) -> str:
        return f"{self.place}: Kafka {self.recorded!r}, here {self.answered!r}"


@dataclass(frozen=True)
class Report:
    """The outcome of a comparison."""

    cases: int
    runs: int
    unexplained: tuple[Mismatch, ...]
    deliberate: Counter[str]

    def summary(self) -> str:
        wrong = len({"/".join(mismatch.place.split("/")[:3]) for mismatch in self.unexplained})
        listed = ", ".join(f"{name}: {count}" for name, count in sorted(self.deliberate.items())) or "none"
        return (
            f"vectors: {self.cases} cases, {self.runs} runs, {wrong} runs differ in {len(self.unexplained)} "
            f"fields; deliberate: {listed}"
        )


def record(target: Target, only: str = "") -> int:
    """Write what `target` answers in the modules whose name contains `only`. Answers the number of runs."""
    count = 0
    RECORDED.mkdir(exist_ok=True)
    for module, answered in ask_all(target, only):
        count += sum(map(len, answered.values()))
        (RECORDED / f"{module}.json").write_text(to_text(answered))
    return count


def ask_all(target: Target, only: str = "") -> Iterator[tuple[str, dict[str, dict[int, Answers]]]]:
    """Each module and what `target` answers to its cases, by name and version. Raises RuntimeError where a script
    could not be run to its end."""
    advertised = target.advertised()
    for module, cases in selected(only):
        answered = {
            case.name: {version: attempt(target, case, version) for version in versions_of(case, advertised)}
            for case in cases
        }
        failed = [
            f"{name} v{version}: {run[0]}"
            for name, runs in answered.items()
            for version, run in runs.items()
            if str(run[:1]).startswith("['failed:")
        ]
        if failed:
            raise RuntimeError("\n".join(failed))
        yield module, answered
        prepare(target, module)


def changed(
    module: str, before: Mapping[str, Mapping[int, Answers]], after: Mapping[str, Mapping[int, Answers]]
) -> Iterator[Mismatch]:
    """What differs between two recordings of a module."""
    for name in sorted(before.keys() | after.keys()):
        earlier, later = before.get(name, {}), after.get(name, {})
        for version in sorted(earlier.keys() | later.keys()):
            yield from differing(f"{module}/{name}/{version}", earlier.get(version, []), later.get(version, []))


def compare(target: Target, modules: Iterable[tuple[str, tuple[Case, ...]]]) -> Report:
    """Run what was recorded against `target`. A run that fails altogether differs in one field that says how."""
    unexplained: list[Mismatch] = []
    deliberate: Counter[str] = Counter()
    cases_run = runs = 0
    for module, cases in modules:
        recorded = from_text((RECORDED / f"{module}.json").read_text())
        for case in cases:
            cases_run += 1
            for version, before in sorted(recorded.get(case.name, {}).items()):
                runs += 1
                for mismatch in differing(f"{module}/{case.name}/{version}", before, attempt(target, case, version)):
                    if difference := reason_for(mismatch.place):
                        deliberate[difference.name] += 1
                    else:
                        unexplained.append(mismatch)
        if problem := unreachable(target, module):
            unexplained.append(Mismatch(f"{module}/after/0/0/", "serving", problem))
            break
    return Report(cases_run, runs, tuple(unexplained), deliberate)


def together(reports: Iterable[Report]) -> Report:
    """One report of what several targets were asked."""
    given = list(reports)
    return Report(
        sum(each.cases for each in given),
        sum(each.runs for each in given),
        tuple(mismatch for each in given for mismatch in each.unexplained),
        sum((each.deliberate for each in given), Counter()),
    )


def selected(only: str) -> list[tuple[str, tuple[Case, ...]]]:
    return [
        (module, cases)
        for module, cases in MODULES.items()
        if only == module or (only not in MODULES and only in module)
    ]


def unreachable(target: Target, module: str) -> str | None:
    """Why the target serves no longer after a module, or None."""
    try:
        target.advertised()
        prepare(target, module)
    except (OSError, AssertionError) as problem:
        return str(problem)
    return None


def prepare(target: Target, module: str) -> None:
    """Between the modules that look at coordinators and those before, which want a cluster without the offsets
    topic."""
    if module == "cluster":
        target.wait_for_coordinators()


def attempt(target: Target, case: Case, version: int) -> Answers:
    try:
        return CaseRun(target, case, version).run()
    except Exception as problem:  # noqa: BLE001  # Whatever a target makes the script do is a finding about the target.
        return [f"failed: {type(problem).__name__}: {problem}"]


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its path; an empty list or dict is a leaf."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from flatten(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for index, each in enumerate(value):
            yield from flatten(each, f"{path}.{index}" if path else str(index))
    else:
        yield path, value


def differing(place: str, recorded: Answers, answered: Answers) -> Iterator[Mismatch]:
    """The fields that differ between two runs of one case in one version."""
    for step in range(max(len(recorded), len(answered))):
        before = dict(flatten(recorded[step])) if step < len(recorded) else {}
        after = dict(flatten(answered[step])) if step < len(answered) else {}
        for path in sorted(before.keys() | after.keys()):
            if before.get(path, ABSENT) != after.get(path, ABSENT):
                yield Mismatch(f"{place}/{step}/{path}", before.get(path, ABSENT), after.get(path, ABSENT))


def to_text(module: Mapping[str, Mapping[V, Answers]]) -> str:
    """JSON with a line for each distinct outcome of a case, after the versions that share it."""
    blocks = []
    for name, by_version in module.items():
        groups: dict[str, list[V]] = {}
        for version, answers in by_version.items():
            groups.setdefault(json.dumps(answers), []).append(version)
        lines = ",\n".join(
            f'    {{"versions": {json.dumps(versions)}, "answers": {answers}}}' for answers, versions in groups.items()
        )
        blocks.append(f"  {json.dumps(name)}: [\n{lines}\n  ]")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def from_text(text: str) -> dict[str, dict[Any, Answers]]:
    return {
        name: {version: group["answers"] for group in groups for version in group["versions"]}
        for name, groups in json.loads(text).items()
    }
