"""The phases that one application works through: its own, and those that ``--then`` names, up to a closed gate."""

from __future__ import annotations

import argparse
import logging
import shlex
from collections.abc import Callable, Sequence

from airflow_backfill.core.attempts.goals import Goal
from airflow_backfill.core.gates.gate import Ready, Verdict, Waiting
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.options import invalid
from airflow_backfill.spark.run.phases import APPLICATIONS, GATE, Interpreter, checked, gate_of, goal_of, parser
from airflow_backfill.spark.session.faults import crash_point

NextPhase = tuple[str, argparse.Namespace]
"""The name of a phase and its options."""
Reach = Callable[[Goal, str | None], BuildState]
"""Works on a goal of a build until it is reached."""


def work_through(application: str, options: argparse.Namespace, shell: Interpreter, reach: Reach) -> BuildState:
    """Reach the application's goal, then those of ``--then``; see ``go_on``."""
    then = following(options)
    return go_on(reach(goal_of(application, options, shell), options.build), then, shell, reach)


def after_plan(state: BuildState, then: Sequence[NextPhase], shell: Interpreter, reach: Reach) -> BuildState:
    """Go on with a small build: its plan's task ends soon after. A large one begins in the task of the snapshot."""
    return go_on(state, then, shell, reach) if state.plan.small else state


def go_on(state: BuildState, then: Sequence[NextPhase], shell: Interpreter, reach: Reach) -> BuildState:
    """Reach the goals of these phases up to a closed gate, for as long as that goes well. What does not go well is left
    to the task whose phase it is: that task will meet the same error, and say so.
    """
    for phase, its in then:
        crash_point("before_phase")
        try:
            if phase != GATE:
                state = reach(goal_of(phase, its, shell), state.plan.build)
            elif not _opens(drive(gate_of(its, state.plan.build), shell.answer)):
                break
        except Exception:
            logging.warning("%s is left to its own task", phase, exc_info=True)
            break
    return state


def _opens(verdict: Verdict) -> bool:
    """Whether the gate is open. If not, what follows is left to tasks of its own."""
    if isinstance(verdict, Ready):
        return True
    why = verdict.reasons if isinstance(verdict, Waiting) else verdict.error
    logging.info("the application ends before the gate: %s", why)
    return False


def following(options: argparse.Namespace) -> list[NextPhase]:
    """The phases that ``--then`` names."""
    return [_following(line, options.target) for line in getattr(options, "then", ())]


def _following(line: str, target: str) -> NextPhase:
    try:
        phase, *words = shlex.split(line)
    except ValueError as error:
        raise invalid("then", line, f"is not a phase and its arguments ({error})") from None
    follow = [name for name, application in APPLICATIONS.items() if application.follows]
    if phase not in follow:
        raise invalid("then", line, f"must begin with one of {', '.join(follow)}")
    return phase, checked(parser(phase).parse_args(["--target", target, *words]))
