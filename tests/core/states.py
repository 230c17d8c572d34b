"""States of a build, one for each situation that a decision tells apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.splits.position import Consumed, Position
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.bound import Bound
from airflow_backfill.core.values.control import Command, Control, Verb
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.row_hash import RowHash
from tests.core.model_target import SOURCE_ID, Model

V = 7
CERTIFICATE = Certificate(V, 3, 60, "digest", 16, 5, RowHash.TYPED)


def planned() -> BuildState:
    """The plan is committed, and nothing else."""
    model = Model()
    model.plan()
    return model.state()


_SEALED = Model().sealed()


def state(phase: Phase, *positions: Position, **record: Any) -> BuildState:
    """A build whose newest record says this, in one lane; one position stands for that of all splits."""
    assert _SEALED.newest is not None
    splits = len(_SEALED.positions)
    stands = positions or (AtFile(0) if phase is Phase.SNAPSHOT else Consumed(V),)
    where = stands * splits if len(stands) == 1 else stands
    said: dict[str, Any] = {
        "event": Event.MARK,
        "bound": None if phase is Phase.SNAPSHOT else Bound(0, 0),
        "progress": None,
        **record,
    }
    barrier = replace(_SEALED.newest, record=replace(_SEALED.newest.record, phase=phase, positions=where, **said))
    return replace(_SEALED, newest=barrier, lanes=(barrier,), positions=where)


def view(head: int = V, after: int = V, *, rows: int = 1, at: int = 0, **fields: Any) -> SourceView:
    """A source with an epoch of some rows at every version."""
    epochs = [Epoch(n, at, rows, rows) for n in range(after + 1, head + 1)]
    return replace(SourceView(SOURCE_ID, head, after, Backlog(epochs)), **fields)


def numbered(*verbs: Verb) -> list[tuple[int, Command]]:
    return [(n, Command(verb)) for n, verb in enumerate(verbs, start=1)]


NOTHING_ORDERED = Control()
