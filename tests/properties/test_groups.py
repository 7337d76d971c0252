"""Laws of groups: the log and the living agree, members of a generation agree, the fenced stay out, commits stay,
nobody waits for ever."""

from __future__ import annotations

import os
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties.groups_machine import GroupLife, commands, random_command

EXAMPLES = 3000 if os.environ.get("KRAFT_SOAK") else 150

relaxed = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@relaxed
@given(st.lists(commands, max_size=60))
def test_the_log_always_replays_to_the_coordinators_state(steps):
    life = GroupLife()
    for step in steps:
        life.do(step)
    life.do(("reload",))


@relaxed
@given(st.integers(0, 2**32 - 1))
def test_the_log_replays_to_the_coordinators_state_in_long_histories(seed):
    life = GroupLife()
    source = Random(seed)
    for _ in range(150):
        life.do(random_command(source))


@relaxed
@given(st.integers(0, 2**32 - 1))
def test_no_group_request_waits_forever(seed):
    life = GroupLife()
    source = Random(seed)
    for _ in range(40):
        life.do(random_command(source))
    for _ in range(10):
        life.do(("wait", 20_000))
    assert not life.parked, "a request was never answered"
    for group_id in life.host.state.groups:
        assert not life.host.state.groups[group_id].members, "silent members are still there"
