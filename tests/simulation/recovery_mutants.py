"""Deliberate bugs of what helps a build on whose target or records are damaged."""

from __future__ import annotations

from tests.simulation.mutant import Mutant

OF_RECOVERIES = (
    Mutant(
        "a recovery begins in the layout that may be about to open",
        "    return _Place(newest + 2, {",
        "    return _Place(newest + 1, {",
    ),
    Mutant(
        "a recovery is called proven",
        "        handoff=epoch,\n",
        "        handoff=epoch,\n"
        "        certificate=__import__('airflow_backfill.core.model.record', fromlist=['x'])"
        ".Certificate(epoch, 0, 0, 'd', 1, 0, __import__('airflow_backfill.core.values.row_hash', fromlist=['x'])"
        ".RowHash.TYPED),\n",
    ),
    Mutant(
        "a rewind takes announcements back",
        "state = replace(state, announced=(yield from _announced(state, at, head)))",
        "pass",
        chain=True,
        trouble="restore",
        often={"rewind": 1},
    ),
    Mutant(
        "a rewind goes on from the version before the restored one",
        "            return commit.restored, since[::-1]\n",
        "            return commit.restored - 1, since[::-1]\n",
        trouble="restore",
        often={"rewind": 1},
    ),
    Mutant(
        "a rewind follows one RESTORE, and not that which another one has brought back",
        "            at, later = yield from _restored(at, error)\n",
        "            if at < head:\n                raise\n            at, later = yield from _restored(at, error)\n",
        trouble="restore",
        often={"rewind": 1},
    ),
    Mutant(
        "a recovery ends if another writer comes just before its barrier",
        "            continue  # another writer came first\n",
        "            raise\n",
        trouble="restore",
        often={"rewind": 1},
    ),
    Mutant(
        "a repair writes nothing",
        "Move(Event.REPAIR, RewriteKeys(state.handoff))",
        "Move(Event.REPAIR)",
        trouble="restore",
        often={"recovery": 1, "left wrong": 1, "repair": 1},
    ),
    Mutant(
        "a recovery fences nobody",
        "    for fence in fences:\n",
        "    return True\n    for fence in fences:\n",
    ),
)
