"""The shutdown of a node: leaderships are moved away, then its logs are closed cleanly.

Moving leaderships needs an active controller. If there is none at the moment, it is waited for. But if so many voters
have certainly stopped that there can be no quorum, waiting would only delay the end. This happens to the last nodes
when a whole cluster is shut down.
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
    """Run the controlled shutdown until the controller permits the stop, a quorum is certainly impossible, or the clock
    reaches `deadline`."""
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
    """Whether the voters that do not refuse a connection are fewer than a majority. A voter that hangs or cannot be
    reached may still run."""
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
    """Close the logs cleanly, once nothing can write to them. Syncs run in threads, many at a time."""
    logs = iter(replicas.logs.logs_and_futures())
    async with trio.open_nursery() as closing_nursery:
        for _ in range(LOGS_CLOSED_AT_ONCE):
            closing_nursery.start_soon(_close_each, logs, replicas, world)


async def _close_each(logs: Iterator[UnifiedLog], replicas: ReplicaManager, world: World) -> None:
    """Close logs one after another. The iterator `logs` is shared with other tasks, so each log is closed by one of
    them."""
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
