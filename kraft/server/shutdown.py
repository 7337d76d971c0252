"""How a node leaves: leaderships handed over, then its logs closed in good order.

Handing over needs an active controller. One that is between two terms is waited for; but when so many voters are
proven dead that there can be no quorum any more, there is nobody to hand over to, and waiting would only delay the
end: of a cluster that is shut down as a whole, the last nodes find this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import trio

from kraft.common.errors import StorageError
from kraft.replication.replica_manager import ReplicaManager
from kraft.server.broker_server import BrokerServer
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import World

LOGS_CLOSED_AT_ONCE = 32
PROBE_PAUSE_SECONDS = 0.2
PROBE_SECONDS_MAX = 1.0
PROBES_IN_A_ROW = 2

VoterEndpoint = tuple[int, str, int]


async def leave(
    broker: BrokerServer, world: World, deadline: float, voters: Callable[[], Sequence[VoterEndpoint]], own_id: int
) -> None:
    """Controlled shutdown, until the controller lets the broker go, a quorum is proven impossible, or `deadline` on
    the clock."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_without_quorum, nursery.cancel_scope, world, voters, own_id)
        await broker.leave(deadline)
        nursery.cancel_scope.cancel()


async def _cancel_without_quorum(
    scope: trio.CancelScope, world: World, voters: Callable[[], Sequence[VoterEndpoint]], own_id: int
) -> None:
    in_a_row = 0
    while in_a_row < PROBES_IN_A_ROW:
        await world.clock.sleep(PROBE_PAUSE_SECONDS)
        in_a_row = in_a_row + 1 if await quorum_is_impossible(world, voters(), own_id) else 0
    scope.cancel()


async def quorum_is_impossible(world: World, voters: Sequence[VoterEndpoint], own_id: int) -> bool:
    """Whether so many of `voters` refuse a connection that the others are no majority. One that hangs or cannot be
    reached proves nothing."""
    refused = 0
    for node_id, host, port in voters:
        if node_id != own_id:
            with world.clock.move_on_after(PROBE_SECONDS_MAX):
                try:
                    (await world.network.connect(host, port)).close()
                except ConnectionRefusedError:
                    refused += 1
                except OSError:
                    continue
    return bool(voters) and len(voters) - refused < len(voters) // 2 + 1


async def close_logs(replicas: ReplicaManager, world: World) -> None:
    """Logs closed in good order, after the last who could write to them has ended. Syncs run in threads, many at a
    time."""
    logs = iter(replicas.logs.logs_and_futures())
    async with trio.open_nursery() as closing_nursery:
        for _ in range(LOGS_CLOSED_AT_ONCE):
            closing_nursery.start_soon(_close_each, logs, replicas, world)


async def _close_each(logs: Iterator[UnifiedLog], replicas: ReplicaManager, world: World) -> None:
    """`logs` is shared: what one has taken, no other gets."""
    for log in logs:
        await _close_log(log, replicas, world)
        await trio.lowlevel.checkpoint()


async def _close_log(log: UnifiedLog, replicas: ReplicaManager, world: World) -> None:
    if not replicas.logs.holds(log):
        return  # Deleted, or gone with its directory, meanwhile.
    directory = replicas.logs.directory_of(log)
    try:
        job = log.prepare_close()
        if job is not None:
            await world.threads.run(job.run)
        log.finish_close(job)
    except (OSError, StorageError) as problem:
        replicas.directory_failed(directory.path, str(problem))
