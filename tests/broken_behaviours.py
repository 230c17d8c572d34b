"""Edits of the core, each of which breaks what an entry of docs/behaviours asks for."""

from __future__ import annotations

from tests.broken import Broken

BROKEN = (
    Broken(
        "S000.10: rounds do not end by rows",
        "        while stop < end and taken_bytes < size.bytes and taken_rows < size.rows:",
        "        while stop < end and taken_bytes < size.bytes:",
    ),
    Broken(
        "S000.10: rounds are as long as they are",
        "        if took > LONG_ROUND_MS and not self.settled:",
        "        if False:",
    ),
    Broken(
        "S000.22: the follower cannot be paused",
        "    if observed.control.stopped:\n        why =",
        "    if observed.control.stopped and state.certificate is None:\n        why =",
    ),
    Broken(
        "S000.22: the throttle does not hold in the log",
        "    return max(due, observed.now) + max(costs) if any(costs) else due",
        "    return max(due, observed.now) + max(costs) if any(costs) and move.event.value != 'epochs' else due",
    ),
    Broken(
        "S000.22: whatever is the cause, the throttle is named",
        "rate_limited=observed.control.limited",
        "rate_limited=True",
    ),
    Broken(
        "S000.31: the bound begins anew with each attempt",
        "        return Bound(self.start, self.value)",
        "        return Bound(self.start, self.start)",
    ),
    Broken(
        "S000.32: the bound stays as it is",
        "        allowed = max(self.value - 1, 0)",
        "        allowed = self.value",
    ),
    Broken(
        "S000.32: writers are never asked to wait",
        "    if source.stopping(applied) is not None or max_lag.holds(source, applied, now):",
        "    if True:",
    ),
    Broken(
        "S000.37: writers wait for what is pinned already",
        "state.phase is not Phase.CONSUME_LOG or applied is None",
        "state.phase not in (Phase.CONSUME_LOG, Phase.CATCH_UP) or applied is None",
    ),
    Broken(
        "S000.37: the hand-off waits for a commit that is still to come",
        "return Move(Event.PIN, changes=Changes(handoff=observed.source.head))",
        "return Move(Event.PIN, changes=Changes(handoff=observed.source.head + 1))",
    ),
    Broken(
        "S000.39: every part of an epoch is its first",
        "ApplyEpochs(epochs, done, of)",
        "ApplyEpochs(epochs, 0, of)",
    ),
    Broken(
        "S000.39: no part of an epoch is its last",
        "Consumed(epoch.number) if done + 1 == of else",
        "Consumed(epoch.number) if done == of else",
    ),
    Broken(
        "S000.41: nothing pending opens the gate",
        '        return Waiting(("the snapshot is not sealed",), lag=False)',
        "        return Ready(state.plan.source.epoch)",
    ),
    Broken(
        "S000.44: the certificate is for a version that is not there",
        "VerifyTarget(epoch, state.proven, state.positions",
        "VerifyTarget(epoch, state.proven + 9, state.positions",
    ),
    Broken(
        "S001.11: an offset lands twice in one batch",
        "    if rows.count > rows.greatest - rows.least + 1:",
        "    if False:",
    ),
    Broken(
        "S001.21: the landing table is looked at after the broker",
        "            self.topic = yield from _ask(self.state, unread)\n        if any(epoch",
        "            self.topic = yield from _ask(self.state, unread)\n"
        "            self.observed = replace(self.observed, source=(yield from ReadSourceLog(self.since)))\n"
        "            self.taken = _epochs(self.since, self.observed, self.step)\n"
        "            self.epochs = EpochRange(self.since + 1, self.since + 1 + len(self.taken))\n"
        "        if any(epoch",
    ),
    Broken(
        "S001.23 S001.28: a pause is forgotten once something lands",
        "        poll = Poll(size, size if held is None else None)",
        "        poll = Poll(size, size)",
    ),
    Broken(
        "S001.23: a paused topic is read",
        "    if observed.control.stopped:\n        why =",
        "    if False:\n        why =",
    ),
    Broken(
        "S001.28: reading begins anew",
        "    start = split.scanned + 1\n",
        "    start = 0\n",
    ),
    Broken(
        "S001.30: a late landing table stays late",
        "silent <= LATE * source.interval",
        "False",
    ),
    Broken(
        "S001.33: a new rate ends a pause",
        '            return {"rate": command.rate, "byte_rate": command.byte_rate, "until": command.until}',
        '            return {"rate": command.rate, "byte_rate": command.byte_rate, "paused": False}',
    ),
    Broken(
        "S001.40: a partition that appears is left to nobody",
        "        return named - self.known.keys()",
        "        return named - self.known.keys() if self.known.keys() == named else set()",
    ),
    Broken(
        "S001.31: the first rate holds for ever",
        '            effects |= {"number": number, **_effect(command)}',
        '            lasting = command.verb is Verb.THROTTLE and effects.get("rate", control.rate) is not None\n'
        '            effects |= {"number": number, **({} if lasting else _effect(command))}',
    ),
    Broken(
        "S002.1: a copy of a plan is a plan",
        '            raise NotPlanned("no barrier of a table backfill is in the target\'s log")',
        '            return BuildState.planned((yield from ReadPlan("any")))',
    ),
    Broken(
        "S002.10: the log is applied before the snapshot is read",
        "        if not state.read and state.phase is Phase.SNAPSHOT:",
        "        if False:",
    ),
    Broken(
        "S002.17: announced beyond the hand-off epoch, for ever",
        "max(last if handoff is None else min(last, handoff), lane.seen)",
        "max(last, lane.seen)",
    ),
    Broken(
        "S002.23: a finished task works again",
        "        return _past(state, Phase.SNAPSHOT) or state.read",
        "        return False",
    ),
    Broken(
        "S003.10: each split has a round of its own",
        "        positions[split] = Consumed(epoch)",
        "        taken_rows = max(taken_rows, size.rows)\n        positions[split] = Consumed(epoch)",
    ),
    Broken(
        "S003.20: a part of an epoch comes after all of it",
        "        return (self.epoch, 0, self.done)",
        "        return (self.epoch, 2, self.done)",
    ),
    Broken(
        "S003.25: an epoch moves one split",
        "        positions=(reached,) * len(state.positions),",
        "        positions=(reached, *state.positions[1:]),",
    ),
    Broken(
        "S004.3: a pause ends with its attempt",
        "changes=Changes(bound=state.bound.renewed()) if state.bound else Changes()",
        "changes=Changes(control=replace(state.control, paused=False, held=False))",
    ),
    Broken(
        "S004.3: a pause lets the first round pass",
        "    if observed.control.stopped:\n        why =",
        "    if observed.control.stopped and state.begun:\n        why =",
    ),
    Broken(
        "S004.10 S004.14: no rows are read while changes are pending",
        "chunks = NONE if held is not None else",
        "chunks = NONE if held is not None or behind else",
    ),
    Broken(
        "S004.11: a round takes all changes",
        "        return fitting(pending, size)[-1].number",
        "        return pending[-1].number",
    ),
    Broken(
        "S004.11: bytes do not count",
        "        return bytes <= self.bytes and rows",
        "        return rows",
    ),
    Broken(
        "S004.16: every barrier costs, with rows or without",
        "due=due_after(state, lane, observed, move),",
        "due=100 + due_after(state, lane, observed, move),",
    ),
    Broken(
        "S004.35: the same rate again is a fresh one",
        "last.record.control.rates == observed.control.rates",
        "last.record.control.number == observed.control.number",
    ),
    Broken(
        "S004.36: ranges have half the rate",
        "_sharing(state), (move.rows, move.bytes)",
        "_sharing(state), (move.rows * (1 + (move.event.value == 'chunks')), move.bytes)",
    ),
    Broken(
        "S004.36: a topic has no rate",
        "_sharing(state), (move.rows, move.bytes)",
        "_sharing(state), (0 if move.event.value == 'offsets' else move.rows, move.bytes)",
    ),
)
