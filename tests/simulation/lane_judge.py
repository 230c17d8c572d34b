"""The invariants of lanes: each barrier once, by the attempt that owns the lane, and one layout at a time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.invariant import must
from tests.simulation.target import DROPPED, Landed


@dataclass
class LaneJudge:
    lanes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last record of each transaction id."""
    versions: dict[tuple[int, int], int] = field(default_factory=dict)
    """And its version, by lane and layout."""
    strangers: dict[str, int] = field(default_factory=dict)
    """By attempt of a dropped build: the version up to which it knew the log when it first committed to this one."""

    def fence(self, landed: Landed) -> None:
        """Nothing lands in the lane any more."""
        must(not landed.commit.data_change, "a fence with rows")
        ((app, seq),) = landed.commit.txns.items()
        lane = {"layout": {"number": int(app.split("/")[1]), "lanes": 0}, "attempt": "", "generation": 0}
        last = {**self.lanes.get(app, lane), "seq": seq, "event": "close", "fence": True}
        self.lanes[app] = last

    def barrier(self, landed: Landed, document: dict[str, Any]) -> None:
        """A lane has no hole, no twin, and one owner at a time."""
        app, seq = next(iter(landed.commit.txns.items()))
        last, event = self.lanes.get(app), document["event"]
        must(seq == (last["seq"] + 1 if last else 1), f"seq {seq} of {app} has a hole or a twin")
        self._fencing(app, last, document)
        least = 0 if last is None or event == "recover" else last["progress"]
        must(least <= document["progress"] <= 10_000, "the progress fell, or is more than the whole")
        self.versions[document["lane"], document["layout"]["number"]] = landed.commit.version
        self.lanes[app] = document

    def _fencing(self, app: str, last: dict[str, Any] | None, document: dict[str, Any]) -> None:
        event = document["event"]
        if event == "close" and document["lane"] == 0:
            self._decided(document)
        if last is not None:
            must(last["event"] != "close", "a barrier in a lane that was closed")
            if event == "close" and document["lane"] > 0:
                decision = self.lanes[app.rpartition("/")[0] + "/0"]
                same = all(decision.get(name) == document[name] for name in ("next_lanes", "decided_by"))
                must(same, "a lane was closed for what nobody has decided")
            elif event in ("claim", "close", "recover", "rewind"):
                takes = document["generation"] > last["generation"] or document["attempt"] == last["attempt"]
                must(takes, "an older attempt took a lane from a newer one")
            else:
                must(document["attempt"] == last["attempt"], "a barrier by an attempt that does not own the lane")
        else:
            must(event in ("claim", "close", "recover", "rewind"), "a lane that begins without a claim")
        number = document["layout"]["number"]
        for other in self.lanes.values():
            if other["layout"]["number"] < number:
                must(other["event"] == "close", "a layout was opened while a lane of an older one was open")
            if other["layout"]["number"] == number and "fence" not in other:
                must(other["layout"] == document["layout"], "two layouts have one number")

    def late(self, landed: Landed, log: list[Landed], build: str) -> bool:
        """Whether this is of an attempt of a build whose table stood here before. There is no more of it, once the log
        that it has read holds a record of ``build``.
        """
        document = json.loads(landed.commit.user_metadata or "{}") if landed.commit.txns else {}
        if "prev" not in document or document["build"] in (build, DROPPED):
            return False
        knew = self.strangers.setdefault(document["attempt"], document["prev"])
        ours = any(one.writer for one in log[knew + 1 : document["prev"] + 1])
        must(not ours, "an attempt of a dropped build goes on in the log of the next one")
        return True

    def _decided(self, document: dict[str, Any]) -> None:
        """Whoever decides on other lanes is newer than all that work in these, and than who decided on these."""
        number, lanes = document["layout"]["number"], document["layout"]["lanes"]
        written = [d for d in self.lanes.values() if "fence" not in d]
        known = [d for d in written if self.versions[d["lane"], d["layout"]["number"]] <= document["prev"]]
        others = [d["generation"] for d in known if d["layout"]["number"] == number and d["lane"] > 0]
        others += [d["decided_by"] for d in known if d["layout"]["number"] == number - 1 and d["event"] == "close"]
        newest = max(others, default=0)
        if document["next_lanes"] != lanes:
            must(document["generation"] > newest, "an older attempt decided on a newer one's lanes")
