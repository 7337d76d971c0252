"""A dispatcher that is sent garbage."""

from __future__ import annotations

import os
import random

from kraft.protocol.api_keys import ApiKey

OBEYED = (
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
    ApiKey.UNREGISTER_BROKER,
)
"""A well-formed one with a huge epoch, or with this node's id in it, ends what the node does for others, and rightly
so: Kafka obeys too."""


def seed() -> str:
    chosen = os.environ.get("KRAFT_FUZZ_SEED") or str(random.randrange(1 << 32))
    print(f"KRAFT_FUZZ_SEED={chosen}")  # pytest shows it when the test fails.
    return chosen
