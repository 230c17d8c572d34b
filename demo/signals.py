"""Signals that set events.

A handler must not set an event: it interrupts the main thread, which may hold the event's lock, and would deadlock. So
it puts the signal into a SimpleQueue, whose ``put`` is reentrant, and a thread sets the event.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from queue import SimpleQueue


def set_on_signal(events: Mapping[signal.Signals, threading.Event]) -> None:
    """From now on each of these signals sets its event."""
    came: SimpleQueue[signal.Signals] = SimpleQueue()

    def set_them() -> None:
        while True:
            events[came.get()].set()

    threading.Thread(target=set_them, name="signals", daemon=True).start()
    for each in events:
        signal.signal(each, lambda number, _: came.put(signal.Signals(number)))
