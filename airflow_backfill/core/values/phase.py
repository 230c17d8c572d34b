"""Phases, events, and the table of legal transitions.

Two rules. TRANSITIONS is the only place that says which event may happen in which phase; the README's diagram is
generated from it. An event that the table does not allow raises NotAllowedNow, and nothing changes.

An event is the reason for a barrier, and is in its record. A build begins in SNAPSHOT with its plan record. RESUME
brings a cancelled build back there; a split that is Consumed stays Consumed. RECOVER is written without reading earlier
records (see ``recovery``). REWIND is not in the table: it brings back the phase of an older version.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from airflow_backfill.core.errors import NotAllowedNow


class Phase(str, Enum):
    SNAPSHOT = "snapshot"
    CONSUME_LOG = "consume_log"
    CATCH_UP = "catch_up"
    FINISHED = "finished"
    UPSTREAM = "upstream"
    CANCELLED = "cancelled"


BUILDING = (Phase.SNAPSHOT, Phase.CONSUME_LOG)
"""Phases before the hand-off epoch is pinned: every pending epoch has to be applied."""


class Event(str, Enum):
    CLAIM = "claim"
    """A newer attempt takes over a lane."""
    FILES = "files"
    """Files of the snapshot were appended."""
    CHUNKS = "chunks"
    """The next rows of the key ranges were read at the newest epoch; earlier keys got their changes up to it."""
    OFFSETS = "offsets"
    """Records of a topic were read, and rows of the landing table were applied or skipped."""
    SEAL = "seal"
    """All splits are Consumed: the target stands at the snapshot's epoch."""
    EPOCHS = "epochs"
    """Changes of one or more epochs were applied."""
    PIN = "pin"
    """The hand-off epoch is pinned."""
    CERTIFY = "certify"
    """The target was proven equal to the transformed source at the hand-off epoch."""
    REPAIR = "repair"
    """Keys that differed from the transformed source at the hand-off epoch were rewritten."""
    FINISH = "finish"
    """The hand-off is committed."""
    MARK = "mark"
    """No progress: a command is acknowledged, or the record is renewed before the log is cleaned up."""
    CLOSE = "close"
    """A lane ends, so that another layout can begin."""
    CANCEL = "cancel"
    """The build ends by a command."""
    RESUME = "resume"
    """A cancelled build goes on."""
    RECOVER = "recover"
    """An operator names the epoch of the target's rows; a verification has to prove it."""
    REWIND = "rewind"
    """An operator has restored the target to an older version; the build goes on from the records of that version."""


def _table(rows: Mapping[Phase, Mapping[Event, Phase]]) -> Mapping[Phase, Mapping[Event, Phase]]:
    return MappingProxyType({phase: MappingProxyType(dict(events)) for phase, events in rows.items()})


TRANSITIONS: Mapping[Phase, Mapping[Event, Phase]] = _table(
    {
        Phase.SNAPSHOT: {
            Event.CLAIM: Phase.SNAPSHOT,
            Event.RECOVER: Phase.CATCH_UP,
            Event.FILES: Phase.SNAPSHOT,
            Event.CHUNKS: Phase.SNAPSHOT,
            Event.OFFSETS: Phase.SNAPSHOT,
            Event.MARK: Phase.SNAPSHOT,
            Event.CLOSE: Phase.SNAPSHOT,
            Event.SEAL: Phase.CONSUME_LOG,
            Event.CANCEL: Phase.CANCELLED,
        },
        Phase.CONSUME_LOG: {
            Event.CLAIM: Phase.CONSUME_LOG,
            Event.RECOVER: Phase.CATCH_UP,
            Event.EPOCHS: Phase.CONSUME_LOG,
            Event.MARK: Phase.CONSUME_LOG,
            Event.PIN: Phase.CATCH_UP,
            Event.CANCEL: Phase.CANCELLED,
        },
        Phase.CATCH_UP: {
            Event.CLAIM: Phase.CATCH_UP,
            Event.RECOVER: Phase.CATCH_UP,
            Event.EPOCHS: Phase.CATCH_UP,
            Event.MARK: Phase.CATCH_UP,
            Event.CERTIFY: Phase.CATCH_UP,
            Event.REPAIR: Phase.CATCH_UP,
            Event.FINISH: Phase.FINISHED,
            Event.CANCEL: Phase.CANCELLED,
        },
        Phase.FINISHED: {
            Event.CLAIM: Phase.FINISHED,
            Event.RECOVER: Phase.CATCH_UP,
            Event.MARK: Phase.FINISHED,
            Event.EPOCHS: Phase.UPSTREAM,
        },
        Phase.UPSTREAM: {
            Event.CLAIM: Phase.UPSTREAM,
            Event.RECOVER: Phase.CATCH_UP,
            Event.EPOCHS: Phase.UPSTREAM,
            Event.MARK: Phase.UPSTREAM,
        },
        Phase.CANCELLED: {
            Event.CLAIM: Phase.CANCELLED,
            Event.RECOVER: Phase.CATCH_UP,
            Event.RESUME: Phase.SNAPSHOT,
        },
    }
)


def after(phase: Phase, event: Event) -> Phase:
    """The phase that ``event`` leads to; NotAllowedNow if the table has no such transition."""
    try:
        return TRANSITIONS[phase][event]
    except KeyError:
        raise NotAllowedNow(
            f"{event.value} is not possible in phase {phase.value} of the build",
            phase=phase.value,
            event=event.value,
        ) from None
