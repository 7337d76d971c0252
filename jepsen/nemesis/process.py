"""Faults of processes: killed, paused, slowed down, restarted."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from jepsen.loopback import LoopbackNetwork
from jepsen.nemesis.injection import Context, Injection, NotNow
from jepsen.node import Node

SLOW_RUN_SECONDS = 0.01
SLOW_STOP_SECONDS = 0.09


def restart(nodes: list[Node]) -> None:
    for node in nodes:
        node.launch()


def kill_together(nodes: list[Node]) -> None:
    for node in nodes:
        os.kill(node.pid, signal.SIGKILL)
    for node in nodes:
        node.kill()


def kill(role: str) -> Callable[[Context], Injection]:
    def begin(context: Context) -> Injection:
        number = context.pick(role)
        node = context.cluster.nodes[number]
        node.kill()

        def end() -> bool:
            died = node.process is not None and node.process.returncode == -signal.SIGKILL
            node.launch()
            return died

        return Injection(kind="kill", role=f"{role} n{number}", busy=frozenset({number}), end=end)

    return begin


def kill_many(how_many: Callable[[int], int]) -> Callable[[Context], Injection]:
    """Kill several nodes at the same moment."""

    def begin(context: Context) -> Injection:
        free = context.free()
        count = how_many(len(context.cluster.nodes))
        if len(free) < count:
            raise NotNow(f"only {free} are free")
        numbers = sorted(context.chance.sample(free, count))
        nodes = [context.cluster.nodes[number] for number in numbers]
        kill_together(nodes)

        def end() -> bool:
            restart(nodes)
            return True

        return Injection(
            kind="kill", role=f"{count} of {len(context.cluster.nodes)}: {numbers}", busy=frozenset(numbers), end=end
        )

    return begin


def pause(role: str) -> Callable[[Context], Injection]:
    """Pause a node; its connections stay open."""

    def begin(context: Context) -> Injection:
        number = context.pick(role)
        node = context.cluster.nodes[number]
        node.pause()
        time.sleep(0.02)
        ticks = node.processor_ticks()

        def end() -> bool:
            still = node.alive and node.processor_ticks() == ticks
            node.resume()
            return still

        return Injection(kind="pause", role=f"{role} n{number}", busy=frozenset({number}), end=end)

    return begin


def slow_processor(context: Context) -> Injection:
    """Give a node a tenth of a processor: it runs for 10 ms and is stopped for 90."""
    number = context.pick("leader")
    node = context.cluster.nodes[number]
    over = threading.Event()
    stops = 0

    def stutter() -> None:
        nonlocal stops
        while not over.is_set() and node.alive:
            os.kill(node.pid, signal.SIGSTOP)
            over.wait(SLOW_STOP_SECONDS)
            os.kill(node.pid, signal.SIGCONT)
            stops += 1
            over.wait(SLOW_RUN_SECONDS)

    thread = threading.Thread(target=stutter, name=f"slow n{number}")
    thread.start()

    def end() -> bool:
        over.set()
        thread.join()
        node.resume()
        return stops > 5

    return Injection(kind="slow-processor", role=f"leader n{number}", busy=frozenset({number}), end=end)


def leave(context: Context) -> Injection:
    """Shut a node down in an orderly way and start it again. A node that is still starting need not end in order."""
    number = context.pick("any")
    node = context.cluster.nodes[number]
    node.await_ready()
    code = node.stop()

    def end() -> bool:
        node.launch()
        return code in (0, 143)

    return Injection(kind="leave", role=f"n{number}", busy=frozenset({number}), end=end)


def unreachable(role: str) -> Callable[[Context], Injection]:
    """In the reduced form: cut all connections to a node; it still reaches the others."""

    def begin(context: Context) -> Injection:
        network = context.cluster.network
        if not isinstance(network, LoopbackNetwork):
            raise NotNow("there are real partitions here")
        number = context.pick(role)
        network.make_unreachable(number)
        return Injection(
            kind="unreachable",
            role=f"{role} n{number}",
            busy=frozenset({number}),
            end=lambda: network.make_reachable(number) > 0,
        )

    return begin
