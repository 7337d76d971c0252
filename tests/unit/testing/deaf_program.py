"""A foreign client that hangs in C, where no signal reaches Python: the test's stand-in for librdkafka's deadlock."""

from __future__ import annotations

import ctypes
import faulthandler
import signal
import sys

if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    sys.stdin.readline()
    ctypes.PyDLL(None).sleep(600)  # With the lock of the interpreter held.
