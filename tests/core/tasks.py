"""Tasks of a build in a model, as most tests run them."""

from __future__ import annotations

from airflow_backfill.core.attempts.goals import (
    CancelGoal,
    CatchUpGoal,
    ConsumeLogGoal,
    FinishGoal,
    SnapshotGoal,
    UpstreamGoal,
    VerifyGoal,
)
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.model_target import NO_LAG, PATIENCE, ROUND

ONE_FILE = RoundSize(1, 10**9)
SNAPSHOT = SnapshotGoal(0, 1, ONE_FILE)
CONSUME = ConsumeLogGoal(ROUND, NO_LAG, PATIENCE)
CATCH_UP = CatchUpGoal(ROUND, NO_LAG, PATIENCE)
READ = SnapshotGoal(0, 1, ROUND)
VERIFY, FINISH, CANCEL = VerifyGoal(), FinishGoal(), CancelGoal()
V = 7


def follow(upto: int) -> UpstreamGoal:
    return UpstreamGoal(ROUND, upto=upto)
