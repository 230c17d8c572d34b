"""Signals that set events.

Not by their handlers: a handler runs in the main thread, in the middle of what that does, which may be holding the
event's lock; then it would wait for itself for ever. A queue's ``put`` may come in the middle of anything.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from queue import SimpleQueue


def heed(events: Mapping[signal.Signals, threading.Event]) -> None:
    """From now on each of these signals sets its event."""
    came: SimpleQueue[signal.Signals] = SimpleQueue()

    def set_them() -> None:
        while True:
            events[came.get()].set()

    threading.Thread(target=set_them, name="signals", daemon=True).start()
    for each in events:
        signal.signal(each, lambda number, _: came.put(signal.Signals(number)))
