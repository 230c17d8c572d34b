"""The invariants of announcements: each epoch once, in order, and no data before its announcement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.simulation.invariant import must
from tests.simulation.target import Landed

if TYPE_CHECKING:
    from tests.simulation.judge import Judge


@dataclass
class AnnouncementJudge:
    judge: Judge
    news: dict[str, Any] | None = None
    """The newest announcement."""
    announcing: bool = True
    """Whether announcements count: not after a recovery."""
    shown: int = -1
    """The newest epoch that anybody was shown."""

    @property
    def over(self) -> bool:
        """Whether nothing is announced, or not any more."""
        ended = self.news is not None and self.news["kind"] == "caught_up"
        return not self.judge.world.chain or not self.announcing or ended

    def show(self, seen: int | None) -> None:
        """What somebody who looks is told to be seen."""
        if self.announcing and seen is not None:
            must(seen >= self.shown, f"epoch {self.shown} was seen, and then only {seen}")
            self.shown = seen

    def check_consumed(self, head: int) -> None:
        """An application that consumed the log has announced every epoch that it found, unless one stops the build."""
        self.judge.look()
        if self.over or self.judge.handoff is not None or self.judge.world.fatal_done:
            return
        seen = self.news["seen"] if self.news is not None else self.judge.pinned or 0
        must(seen >= head, f"the log was consumed, the source stood at {head}, only {seen} was announced")

    def landed(self, landed: Landed, document: dict[str, Any]) -> None:
        """Every epoch is announced once, in order, when it is there; the lane ends when its data is, too."""
        last = self.news or {"seq": 0, "generation": 0, "attempt": "", "seen": self.judge.pinned, "kind": "claim"}
        must(self.judge.world.chain and not landed.commit.data_change, "an announcement that is more than one")
        must(document["seq"] == last["seq"] + 1, "the lane of announcements has a hole or a twin")
        if not self.announcing:
            return
        judge, kind, seen = self.judge, document["kind"], document["seen"]
        if kind == "claim":
            taken = document["generation"] > last["generation"]
            must(taken, "an older attempt took the announcements from a newer one")
        else:
            must(document["attempt"] == last["attempt"], "an announcement by an attempt that does not own the lane")
        must(last["kind"] != "caught_up", "an announcement after the end of announcements")
        if kind == "epochs":
            start, stop = document["epochs"]["start"], document["epochs"]["stop"]
            must(start == last["seen"] + 1 and stop == seen + 1 > start, "an epoch was announced twice, or not at all")
            must(seen <= judge.world.source.head, "an epoch was announced that is not there")
            known = judge.handoff is not None and document["prev"] >= judge.handoff_at
            must(not known or seen <= (judge.handoff or 0), "an epoch was announced beyond the hand-off epoch")
        else:
            must(seen == last["seen"], "announcements went back")
        if kind == "caught_up":
            there = judge.applied is not None and (judge.applied >= seen or judge.applied in judge.handoffs)
            must(there, f"caught up at {judge.applied}, announced was {seen}")
        self.news = document
        judge.stands(seen, landed)

    def check_data(self, document: dict[str, Any]) -> None:
        """Until the data has caught up no epoch is applied that was not announced, and nothing is handed over."""
        if self.over:
            return
        event, seen = document["event"], self.news["seen"] if self.news else self.judge.pinned
        must(event not in ("certify", "finish"), f"{event} before the data has caught up")
        must(event != "epochs" or document["epochs"]["stop"] - 1 <= seen, "data before its announcement")
