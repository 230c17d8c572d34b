"""A signal sets its event, also in the middle of what the main thread does with that event."""

from __future__ import annotations

import subprocess
import sys

from demo.process import ROOT

PROGRAM = """
import os, signal, threading
from demo.signals import set_on_signal
event = threading.Event()
set_on_signal({signal.SIGUSR1: event})
with event._cond:
    os.kill(os.getpid(), signal.SIGUSR1)
    for _ in range(1000):
        pass
assert event.wait(20)
"""


def test_a_signal_may_come_while_the_events_lock_is_held():
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, check=True, timeout=30)
