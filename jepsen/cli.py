"""`python -m jepsen run | check | plans | mutants | controls`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from jepsen import sandbox
from jepsen.judges.verdict import EXIT_CODES, Verdict, judge_file
from jepsen.targets import KAFKAS, target_named

RUNS = "KRAFT_JEPSEN_RUNS"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m jepsen", description="Tear a real cluster apart and judge what its clients saw."
    )
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run and judge; exit code 0 ok, 1 violation, 2 invalid")
    run.add_argument("--target", default=os.environ.get("TARGET", "kraft"), choices=("kraft", "kafka", "mixed"))
    run.add_argument("--kafkas", type=int, default=KAFKAS, choices=(1, 2, 3, 4), help="of five nodes, with mixed")
    run.add_argument("--source", help="a checkout of kraft to run instead of this one")
    run.add_argument("--workload", default="queue", help="see `plans`; several, separated by commas, are run in turn")
    run.add_argument("--plan", default="swarm", help="see `plans`; likewise")
    run.add_argument("--seed", type=int, default=None, help="default: from the clock, and printed")
    run.add_argument("--seconds", type=float, default=30.0, help="of faults, per run")
    run.add_argument("--minutes", type=float, default=None, help="run after run until so much time has passed")
    run.add_argument("--rate", type=float, default=150.0, help="records per second of each main producer")
    run.add_argument("--no-flush", action="store_true", help="default flush settings instead of flush.messages=1")
    run.add_argument(
        "--disk", default="ext4", choices=("ext4", "xfs", "directory"), help="directory: the reduced form, without root"
    )
    run.add_argument("--secured", action="store_true", help="SASL_SSL between all, with an authorizer")
    run.add_argument("--directory", default=None, help="where histories, logs and reports go")
    check = commands.add_parser("check", help="judge a history alone")
    check.add_argument("history", type=Path)
    commands.add_parser("plans", help="list workloads, plans and faults")
    mutants = commands.add_parser("mutants", help="plant known defects and see each of them found")
    mutants.add_argument("names", nargs="*")
    commands.add_parser("controls", help="the runs of the mutants, without any defect: each has to be green")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    top = parser()
    options = top.parse_args(given)
    if options.command == "check":
        return tell(judge_file(options.history))
    if options.command == "plans":
        return list_plans()
    if options.command == "controls":
        from jepsen.mutants.bank import controls

        return controls()
    if options.command == "mutants":
        from jepsen.mutants.bank import main as try_mutants

        return try_mutants(options.names)
    if problem := misnamed(options):
        top.error(problem)
    if sandbox.inside():
        return run(options)
    try:
        if options.disk == "directory":
            raise sandbox.Unsupported("nothing, but was told to do without")
        return sandbox.enter(given)
    except sandbox.Unsupported as problem:
        without = "reduced form on loopback: deaths, pauses, cuts by proxy; no partitions, no power loss, no disks"
        print(f"jepsen: this machine lacks {problem}: {without}", file=sys.stderr)
        if os.environ.get("CI") == "true":
            return EXIT_CODES["invalid"]
        options.disk = "directory"
        return sandbox.reduced(lambda: run(options))


def misnamed(options: argparse.Namespace) -> str | None:
    """The error in the names of workloads and plans, or None."""
    from jepsen.history import MIXED
    from jepsen.nemesis.plans import FAULTS, NAMED, ROLL
    from jepsen.workloads.workload import TIERED, UNCLEAN, WORKLOADS

    workloads, plans = options.workload.split(","), options.plan.split(",")
    for what, names, known in (("workload", workloads, [*WORKLOADS]), ("plan", plans, ["swarm", *NAMED, *FAULTS])):
        for name in names:
            if name not in known:
                return f"there is no {what} {name!r} (`python -m jepsen plans` lists them)"
    if options.target != "kraft" and any(name in TIERED for name in workloads):
        return "workload tiered is of kraft alone: Apache Kafka comes without a plugin for object stores"
    if ROLL.fault in plans and options.target != MIXED:
        return f"plan {ROLL.fault} is of the target {MIXED} alone: elsewhere all nodes run the same program"
    ours = [name for name in workloads if name in UNCLEAN and "unclean.leader.election.enable" not in UNCLEAN[name]]
    return (
        f"workload {ours[0]} is of kraft alone: Apache Kafka knows unclean"
        if ours and options.target != "kraft"
        else None
    )


def list_plans() -> int:
    from jepsen.nemesis.plans import FAULTS, NAMED
    from jepsen.workloads.workload import WORKLOADS

    print("workloads:", *WORKLOADS)
    print("plans: swarm", *NAMED)
    print("faults (each is a plan, too):", *FAULTS)
    return 0


def tell(verdict: Verdict) -> int:
    for finding in verdict.findings:
        print(f"  {finding}")
    for reason in verdict.reasons:
        print(f"  invalid: {reason}")
    if verdict.lost_allowed:
        print(f"  {verdict.lost_allowed} acknowledged records were lost as the promise allows (docs/safety.md)")
    if verdict.twice:
        print(
            f"  {verdict.twice} records are there twice (no finding where librdkafka sent them again under "
            "another producer id: docs/findings/judge.md)"
        )
    print(verdict)
    return verdict.exit_code


def run(options: argparse.Namespace) -> int:
    """Inside the sandbox: make one run, or as many as there is time for. The worst verdict counts."""
    if sandbox.inside():
        sandbox.prepare()
    began = time.monotonic()
    first = options.seed if options.seed is not None else int(time.time())
    top = Path(options.directory or os.environ.get(RUNS) or tempfile.mkdtemp(prefix="kraft-jepsen-"))
    total: list[Verdict] = []
    while not total or (options.minutes is not None and time.monotonic() - began < options.minutes * 60):
        workloads, plans, turn = options.workload.split(","), options.plan.split(","), len(total)
        total.append(
            run_one(
                options, workloads[turn % len(workloads)], plans[turn % len(plans)], first + turn, top / f"{turn:03d}"
            )
        )
    if len(total) > 1:
        print(summary(total))
    return summary(total).exit_code


def run_one(options: argparse.Namespace, workload: str, plan: str, seed: int, directory: Path) -> Verdict:
    from jepsen.report import write_report
    from jepsen.run import HISTORY, Options, Run

    chosen = Options(
        workload=workload,
        plan=plan,
        seed=seed,
        seconds=options.seconds,
        rate=options.rate,
        flush=not options.no_flush,
        disk=options.disk,
        secured=options.secured,
    )
    print(
        (
            f"run {directory.name}: {options.target} {workload} under {plan}, seed {seed}, {options.seconds:g} s, "
            f"history {directory / HISTORY}"
        ),
        flush=True,
    )
    scratch = sandbox.scratch() / directory.name
    with sandbox.fresh_namespaces() if sandbox.inside() else nullcontext():
        target = target_named(options.target, options.source, seed, options.kafkas)
        verdict = Run(chosen, target, directory, scratch).execute()
    shutil.rmtree(scratch, ignore_errors=True)
    write_report(directory / HISTORY, directory / "report.html", verdict)
    tell(verdict)
    sys.stdout.flush()
    return verdict


def summary(verdicts: Sequence[Verdict]) -> Verdict:
    """Combine the verdicts of several runs into one."""
    words = [verdict.word for verdict in verdicts]
    return Verdict(
        word=next((word for word in ("violation", "invalid") if word in words), "ok"),
        acknowledged=sum(each.acknowledged for each in verdicts),
        checked=sum(each.checked for each in verdicts),
        lost=sum(each.lost for each in verdicts),
        lost_allowed=sum(each.lost_allowed for each in verdicts),
        unseen=sum(each.unseen for each in verdicts),
        twice=sum(each.twice for each in verdicts),
        findings=tuple(finding for each in verdicts for finding in each.findings),
        reasons=tuple(reason for each in verdicts for reason in each.reasons),
    )
