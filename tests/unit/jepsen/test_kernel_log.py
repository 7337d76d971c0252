"""What the kernel says is heard from a moment on, once."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from jepsen.kernel_log import KernelLog


def say(words: str) -> None:
    Path("/dev/kmsg").write_text(f"<6>{words}\n")


@pytest.mark.skipif(
    not os.access("/dev/kmsg", os.R_OK | os.W_OK),
    reason="the kernel's log, /dev/kmsg, is not ours to read and write here",
)
def test_kernel_lines_before_the_start_are_skipped_and_later_ones_read_once() -> None:
    before, after = f"kraft test {uuid.uuid4()}", f"kraft test {uuid.uuid4()}"
    say(before)
    log = KernelLog()
    try:
        assert not any(before in line for line in log.new_lines())
        say(after)
        assert sum(after in line for line in log.new_lines()) == 1
        assert not any(after in line for line in log.new_lines())
    finally:
        log.close()
