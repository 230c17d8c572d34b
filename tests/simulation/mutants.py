"""The deliberate protocol bugs that the simulation has to catch."""

from __future__ import annotations

from tests.simulation.mutant import Mutant
from tests.simulation.proof_mutants import OF_PROOFS
from tests.simulation.recovery_mutants import OF_RECOVERIES
from tests.simulation.topic_mutants import OF_TOPICS

RESTARTED = {"restart": 1.0, "cure": 0.0, "rewind": 0.0, "recovery": 0.0}
"""How often a target is dropped that somebody else has changed, and planned again."""

MUTANTS = (
    Mutant(
        "no claim on start",
        "barrier.record.attempt == me.name and not barrier.record.closed",
        "not barrier.record.closed",
    ),
    Mutant(
        "no read-back: what the client was told is believed",
        "    state = yield from catch_up(state)\n    entering =",
        "    if written.error is None and written.conflict is None:\n"
        "        from airflow_backfill.core.values.commit import Commit\n"
        "        from airflow_backfill.core.state.replay import apply\n"
        "        from airflow_backfill.core.state.state import Barrier\n"
        "        return apply(state, Barrier(state.proven + 1, 0, record, 0)), True\n"
        "    state = yield from catch_up(state)\n    entering =",
    ),
    Mutant(
        "the transaction id carries the generation",
        "        return app_id(self.build, self.layout.number, self.lane)",
        "        return app_id(self.build, self.layout.number, self.lane) + f'/{self.generation}'",
    ),
    Mutant(
        "seq starts again with each attempt",
        "        seq=state.seq(lane) + 1,",
        "        seq=(state.seq(lane) if last is not None and last.record.attempt == me.name else 0) + 1,",
    ),
    Mutant(
        "splits move to other lanes without closing the old ones",
        "    if decided is None and coming == goal.lanes:\n",
        "    if goal.lane < state.layout.lanes:\n",
        often={"lanes": 0.2, "twin": 0.2},
    ),
    Mutant(
        "only the first lane of a layout is closed",
        "return all(b is not None and b.record.closed for b in self.lanes)",
        "return self.lanes[0] is not None and self.lanes[0].record.closed",
    ),
    Mutant(
        "a foreign commit between two rounds is not looked at",
        "            yield from _check_not_dropped(state, commit)\n        check_commit(state.plan, commit, record)\n",
        "            yield from _check_not_dropped(state, commit)\n",
    ),
    Mutant(
        "a foreign commit before the start is not looked at",
        "        check(plan, commit, record)\n    return state\n",
        "        pass\n    return state\n",
    ),
    Mutant(
        "RESTORE is taken for maintenance",
        "    if why is not None:\n        back = way_back(",
        '    if why is not None and commit.operation != "RESTORE":\n        back = way_back(',
    ),
    Mutant(
        "a record without its transaction id is believed",
        "    if commit.user_metadata is None or not commit.txns or "
        "'\"airflow_backfill\":' not in commit.user_metadata:\n"
        "        return None\n"
        "    with named(commit.version):\n"
        "        record = decode(commit.user_metadata)\n"
        "    ours = build in (None, record.build) and commit.txns.get(record.app_id) == record.seq\n"
        "    return record if ours else None",
        "    if commit.user_metadata is None or '\"airflow_backfill\":' not in commit.user_metadata:\n"
        "        return None\n"
        "    return decode(commit.user_metadata)",
    ),
    Mutant(
        "an older attempt is not fenced",
        "    if newest >= me.generation:",
        "    if barrier.record.closed:",
    ),
    Mutant(
        "any attempt may decide on a layout",
        "coming != goal.lanes and me.generation <= _decider(state, me):",
        "False:",
        often={"lanes": 0.2, "twin": 0.2},
    ),
    Mutant(
        "the log begins at the pinned epoch",
        "    pending = observed.source.pending(applied)\n    if upto",
        "    pending = observed.source.pending(applied)[1:]\n    if upto",
    ),
    Mutant(
        "the log begins one epoch too early",
        "        return oldest_epoch(self.positions, epoch) if applied is None else applied",
        "        return oldest_epoch(self.positions, epoch) - 1 if applied is None else applied",
    ),
    Mutant(
        "catch-up does not stop at the hand-off epoch",
        "for epoch in (state.handoff, state.seen",
        "for epoch in (None, state.seen",
    ),
    Mutant(
        "an epoch is claimed by its first part",
        "Consumed(epoch.number) if done + 1 == of else",
        "Consumed(epoch.number) if done == 0 else",
    ),
    Mutant(
        "the number of parts follows the round size of the attempt",
        "        return _part(state, first, state.part.done, state.part.of)",
        "        return _part(state, first, state.part.done, state.part.of + 1)",
    ),
    Mutant(
        "a file is skipped when a split is resumed",
        "first, end = splits.borders[split] + position.files,",
        "first, end = splits.borders[split] + position.files + bool(position.files),",
    ),
    Mutant(
        "the position does not grow with the rows",
        "else AtFile(position.files + stop - first)",
        "else AtFile(position.files)",
    ),
    Mutant(
        "a planner believes its own write",
        "        head = yield from ReadHead()\n        for version",
        "        if written.error is None and written.conflict is None:\n"
        "            yield from CopyPlan(draft)\n            return draft\n"
        "        head = yield from ReadHead()\n        for version",
        often={"twin": 0.2},
    ),
    Mutant(
        "a cancel is only looked at when an attempt starts",
        "    if over and not isinstance(goal, CancelGoal):",
        "    if False:",
    ),
    Mutant(
        "an interrupted round is a failed one",
        "    if isinstance(written.error, Interrupted):\n        return state, None\n",
        "",
    ),
    Mutant(
        "what was interrupted is taken for not landed",
        "    state = yield from catch_up(state)\n    entering =",
        "    if isinstance(written.error, Interrupted):\n"
        "        from dataclasses import replace as changed\n"
        "        return changed(state, proven=state.proven + 1), None\n"
        "    state = yield from catch_up(state)\n    entering =",
        often={"command": 0.2},
    ),
    Mutant(
        "finish does not ask for a certificate",
        "        if self.verified and state.certificate is None:",
        "        if False:",
    ),
    Mutant(
        "an error of the verification is a pass",
        "            certificate = yield from compared(state, asked)",
        "            try:\n"
        "                certificate = yield from compared(state, asked)\n"
        "            except Exception:\n"
        "                from airflow_backfill.core.model.certificate import Certificate\n"
        "                certificate = Certificate(epoch, state.proven, 0, 'none', 1, 0, row_hash)",
    ),
    Mutant(
        "the gate believes the counter of pending epochs",
        '        return Waiting(("the snapshot is not sealed",), lag=False)',
        "        return Ready(state.plan.source.epoch)",
    ),
    Mutant(
        "a resumed build keeps its old hand-off",
        "changes=Changes(control=control, bound=None, handoff=None, certificate=None, cost=None)",
        "changes=Changes(control=control, bound=None, cost=None)",
        often={"cancel": 0.05},
    ),
    Mutant(
        "the bound grows with a retry",
        "        allowed = max(self.value - 1, 0)",
        "        allowed = max(pending_after, self.value)",
    ),
    Mutant(
        "a new attempt inherits the rounds that did not contract",
        "        return Bound(self.start, self.value)\n",
        "        return Bound(self.start, self.value, self.stalled)\n",
    ),
    Mutant(
        "the snapshot is sealed by the last lane, not by all",
        "    return len(stands) == 1 and None not in stands",
        "    return positions[-1].complete is not None",
    ),
    Mutant(
        "another table in the source's place is read on",
        "    if view.table_id != plan.source.table_id:",
        "    if False:",
    ),
    Mutant(
        "a gap in the source's log is jumped over",
        "    if oldest is not None and isinstance(oldest.stop, HistoryLost):\n        raise oldest.stop",
        "    if oldest is not None and isinstance(oldest.stop, HistoryLost):\n"
        "        object.__setattr__(oldest, 'stop', None)",
    ),
    Mutant(
        "ranges are read at the epoch of before, and called newer",
        "ReadRanges(epoch, None if quiet else changes,",
        "ReadRanges(state.reached, None if quiet else changes,",
    ),
    Mutant(
        "the changes of ranges begin one epoch late",
        "EpochRange(state.reached + 1, epoch + 1) if state.begun and epoch > state.reached else None",
        "EpochRange(state.reached + 2, epoch + 1) if state.begun and epoch > state.reached + 1 else None",
    ),
    Mutant(
        "changes are dropped until a range is complete",
        "if state.begun and epoch > state.reached",
        "if any(isinstance(p, Consumed) for p in state.positions) and epoch > state.reached",
    ),
    Mutant(
        "ranges that read nothing stay at their epoch",
        "        return replace(position, epoch=epoch)",
        "        return position",
    ),
    Mutant(
        "announcements without a claim",
        "    if lane.attempt != me.name:\n",
        "    if not lane.attempt:\n",
    ),
    Mutant(
        "caught up as soon as nothing is new",
        "Kind.CAUGHT_UP, last) if arrived(state) else None",
        "Kind.CAUGHT_UP, last)",
    ),
    Mutant(
        "an older announcer takes its lane back",
        "        if max(lane.generation, works) > me.generation:\n",
        "        if False:\n",
    ),
    Mutant(
        "data overtakes its announcement",
        "state.seen if state.rearranging else None",
        "None",
    ),
    Mutant(
        "a restart forgets what was announced",
        "    if known < 0:\n",
        "    if True:\n",
    ),
    Mutant(
        "a record forgets the lanes that have ended",
        "if b is not None and n != lane}",
        "if False}",
    ),
    Mutant(
        "a record forgets what was announced",
        "        return self.announced if self.announced is not None and self.announced.version >= 0 else None",
        "        return None",
    ),
    Mutant(
        "a resume lifts a cancel that came later",
        "goal.number)\n",
        "10**9)\n",
    ),
    Mutant(
        "handed over while epochs are announced",
        "self.applied == self.handoff and not self.rearranging",
        "self.applied == self.handoff",
        chain=True,
        often={"sleep": 0.1},
    ),
    Mutant(
        "the log is consumed without a word about epochs within the bound",
        "if _announcing(state, observed) else Done()",
        "if False else Done()",
    ),
    Mutant(
        "a source that was put back from a backup is followed on",
        "        if commit.version > view.head or view.commit(commit.version) not in (None, commit):",
        "        if False:",
        trouble="put back",
    ),
    Mutant(
        "records forget at which commit of the source they stand",
        "    return source.commit(epoch) or next((commit for commit in state.stands if commit.version == epoch), None)",
        "    return None",
        trouble="put back",
    ),
    Mutant(
        "a record forgets at which commit of the source the announced epoch stands",
        '            **({} if self.source is None else {"digest": self.source.digest}),\n',
        "",
        chain=True,
        trouble="put back",
    ),
    Mutant(
        "a record of a dropped build is taken for one of this one",
        "ours = build in (None, record.build) and commit.txns",
        "ours = commit.txns",
    ),
    Mutant(
        "an announcement of a dropped build is taken for one of this one",
        "ours = build in (None, found.build) and commit.txns",
        "ours = commit.txns",
        chain=True,
    ),
    Mutant(
        "the newest record is this build's, whatever its build",
        "    return found if found is not None and (yield from _known(found.build, strangers)) else None\n",
        "    yield from ()\n    return found\n",
    ),
    Mutant(
        "an attempt of a dropped build goes on in the log of the next one",
        "            yield from _check_not_dropped(state, commit)\n",
        "            pass\n",
        trouble="foreign append",
        often=RESTARTED,
        haunted=True,
    ),
    Mutant(
        "a plan is of the table in whose log it is",
        "                if not (yield from is_of_table(plan, version)):\n",
        "                if False:\n",
        trouble="foreign append",
        often=RESTARTED,
        haunted=True,
    ),
    Mutant(
        "the newest plan is this table's, whatever its table",
        " and (yield from _known(planned, strangers)):\n",
        ":\n",
    ),
    Mutant(
        "the rewriting of files that the table never had is maintenance",
        "    if commit.strays:\n",
        "    if False:\n",
        trouble="quiet append",
    ),
    Mutant(
        "what stops a build is not looked for before it is reached",
        "    check_ahead(state.phase, source, state.reached)\n",
        "",
        trouble="drop column",
    ),
    Mutant(
        "a rule of the target is not looked at",
        "    check_rules(state.plan, state.phase, looked.properties)\n",
        "",
        trouble="target rule",
    ),
    Mutant(
        "a commit that says that it changes no row is believed",
        "        return added != removed",
        "        return False",
        trouble="quiet append",
    ),
    Mutant(
        "a wait is longer after the clock was set back",
        "        return max(min(self.until - now, self.until - self.now), 0)",
        "        return max(self.until - now, 0)",
    ),
    Mutant(
        "an application that goes on does not ask its gate",
        "            elif not _opens(drive(gate_of(its, state.plan.build), shell.answer)):\n                break\n",
        "            else:\n                pass\n",
        through=True,
        often={"command": 0.15},
    ),
    Mutant(
        "an application goes on although its gate is closed",
        "    why = verdict.reasons if isinstance(verdict, Waiting) else verdict.error\n",
        "    return True\n    why = verdict.reasons if isinstance(verdict, Waiting) else verdict.error\n",
        through=True,
        often={"command": 0.15},
    ),
    *OF_PROOFS,
    *OF_RECOVERIES,
    *OF_TOPICS,
)
