"""Carries a plan out: begins faults, holds them, ends them, and records whether each had an effect."""

from __future__ import annotations

import threading
import traceback

from jepsen.checker.operations import INFO, OK, FaultInjected, Unexpected
from jepsen.history import MIXED
from jepsen.loopback import LoopbackNetwork
from jepsen.nemesis.injection import Context, Injection, NotHere, NotNow
from jepsen.nemesis.plans import FAULTS, ROLL, STEADY, Step, steps

OVERLAP_CHANCE = 0.35
RECOVERY_SECONDS_MAX = 40.0


def roll_after(target: str, plan: str, seconds: float) -> float | None:
    """Return the seconds of faults after which a node changes its program: half of them in a cluster of both programs
    whose plan is not the steady one, else None."""
    return seconds / 2 if target == MIXED and plan != STEADY else None


class Nemesis:
    """A thread that injects faults: at most two at the same time, never two at the same node."""

    def __init__(
        self,
        context: Context,
        plan: str,
        flush: bool,
        *,
        is_mixed: bool = False,
        roll_after: float | None = None,
    ) -> None:
        """After `roll_after` seconds of faults a node changes its program, beside the plan; None: never."""
        self._context = context
        is_reduced, is_tiered = isinstance(context.cluster.network, LoopbackNetwork), context.cluster.store is not None
        self._steps = steps(plan, context.chance, flush, is_reduced, is_tiered, is_mixed)
        self._roll_after = roll_after
        self._overlap = plan == "swarm"
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nemesis")
        self._under_way: list[tuple[float, Injection, FaultInjected]] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the faults under way. Returns when none is left."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            began = self._context.recorder.now()
            for step in self._steps:
                if self._stopped.is_set():
                    break
                if self._roll_after is not None and self._context.recorder.now() - began >= self._roll_after:
                    self._roll()
                self._step(step)
            if self._roll_after is not None:  # A calm plan has no steps, and a slow machine comes to few.
                self._stopped.wait(max(0.0, began + self._roll_after - self._context.recorder.now()))
                self._roll()
            self._stopped.wait()
            self._end_until(float("inf"))
        except Exception:  # noqa: BLE001 - a nemesis that dies leaves a calm run that proves nothing: say so.
            now = self._context.recorder.now()
            self._context.recorder.done(
                Unexpected(process="nemesis", began=now, ended=now, outcome=OK, what=traceback.format_exc())
            )

    def _roll(self) -> None:
        """Let a node change its program once the other faults have ended. In a swarm the next fault meets the node
        while it starts. It is tried again before the step after that if no node was free."""
        self._end_until(float("inf"))
        if self._begin(ROLL) if self._overlap else self._step(ROLL):
            self._roll_after = None

    def _step(self, step: Step) -> bool:
        """Carry out one step. Returns whether its fault began."""
        began = self._begin(step)
        alone = not self._overlap or len(self._under_way) > 1 or self._context.chance.random() > OVERLAP_CHANCE
        if alone:
            while self._under_way and not self._stopped.wait(0.05):
                self._end_until(self._context.recorder.now())
        else:
            self._stopped.wait(min(step.hold, 1.0))
            self._end_until(self._context.recorder.now())
        self._stopped.wait(step.rest)
        if not self._overlap:
            self._until_it_works()
        return began

    def _until_it_works(self) -> None:
        """Wait until a record is acknowledged again and the observer has seen the present leaders. A fault on a cluster
        that is down shows nothing, and faults are aimed by what the observer has seen."""
        acknowledged, now = self._context.recorder.acknowledged, self._context.recorder.now
        before, deadline = len(acknowledged), now() + RECOVERY_SECONDS_MAX
        while len(acknowledged) <= before and now() < deadline:
            if self._stopped.wait(0.1):
                return
        since = now()
        while not self._sees_leaders(since) and now() < deadline:
            if self._stopped.wait(0.1):
                return

    def _sees_leaders(self, since: float) -> bool:
        sample = self._context.observer.latest
        return sample.at >= since and any(leader >= 0 for leader, _, _, _ in sample.partitions.values())

    def _begin(self, step: Step) -> bool:
        """Begin the fault of a step. Returns whether it had a target."""
        recorder = self._context.recorder
        fault = FaultInjected(process="nemesis", began=recorder.now(), kind=step.fault, bit=False)
        try:
            injection = FAULTS[step.fault](self._context)
        except NotNow as reason:
            # What a plan names and what is never done makes the run prove less than its name says.
            if not self._overlap and not isinstance(reason, NotHere):
                fault.role, fault.ended = f"not done: {reason}", recorder.now()
                recorder.done(fault)
            self._stopped.wait(0.2)
            return False
        fault.role = injection.role
        self._context.busy |= injection.busy
        self._under_way.append((recorder.now() + step.hold, injection, recorder.begin(fault)))
        return True

    def _end_until(self, now: float) -> None:
        for entry in [each for each in self._under_way if each[0] <= now]:
            self._under_way.remove(entry)
            _, injection, fault = entry
            fault.bit = injection.end()
            self._context.busy -= injection.busy
            fault.outcome, fault.ended = (OK if fault.bit else INFO), self._context.recorder.now()
            self._context.recorder.done(fault)
