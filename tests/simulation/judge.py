"""The invariants, checked against what landed. Nothing here imports a decision of the core.

Progress is read from the records' JSON with a reader of its own, and the expected rows are recomputed from
the source's versions, so a mistake of the core cannot excuse itself.
"""

from __future__ import annotations

import json
from collections import Counter
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import VerificationFailed
from airflow_backfill.core.values.control import Verb
from tests.simulation import range_judge
from tests.simulation.announcement_judge import AnnouncementJudge
from tests.simulation.invariant import WHOLE, Violation, must
from tests.simulation.lane_judge import LaneJudge
from tests.simulation.partition_judge import PartitionJudge
from tests.simulation.source import transform
from tests.simulation.target import Bag, Landed, same

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass
class Judge:
    world: World
    seen: int = 0
    lanes: LaneJudge = field(default_factory=LaneJudge)
    progress: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Per split: (-1, files done), then (epoch, buckets done) of an epoch in part, (epoch, WHOLE) at an
    epoch.
    """
    ranges: list[range_judge.Range] = field(default_factory=list)
    partitions: PartitionJudge = field(init=False)
    announcements: AnnouncementJudge = field(init=False)
    files_read: Counter[int] = field(default_factory=Counter)
    applied: int | None = None
    finished: bool = False
    cancelled: bool = False
    handoff: int | None = None
    pinned: int | None = None
    bound: list[int] | None = None
    foreign_at: int | None = None
    handoffs: set[int] = field(default_factory=set)
    handoff_at: int = 0
    """The version that pinned the hand-off epoch."""
    lifted: int = 0
    """No cancel up to this command is in force."""
    unproven: bool = False
    """Since a recovery: somebody's word for the epoch, until a comparison backs it."""
    repaired: int = 0
    """The version of the last repair: a sleeper may still find one wrong that was before it."""
    recoveries: set[int] = field(default_factory=set)
    """The versions of recoveries and rewinds that count."""
    stood: int = -1
    """The newest epoch of the source at which anything stands, or that is announced."""
    stood_at: int = -1
    """The version of the target by which that is known."""
    stale: bool = False
    """Whether that is an epoch of a history that was taken back."""
    forked: int | None = None
    """The step at which the source was put back."""
    looks: dict[str, int] = field(default_factory=dict)
    """When each process looked at the source last."""
    marks: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By version of the target that a record of the build made: where the build stood."""
    proofs: set[tuple[int, int]] = field(default_factory=set)
    """Epoch and target version of each comparison that succeeded."""

    def __post_init__(self) -> None:
        self.partitions = PartitionJudge(self.world)
        self.announcements = AnnouncementJudge(self)

    def look(self) -> None:
        """Check every commit that landed since the last look."""
        log = self.world.target.log
        while self.seen < len(log):
            landed = log[self.seen]
            self.seen += 1
            if landed.writer == "":
                if self.lanes.late(landed, log, self.world.build) and landed.commit.data_change:
                    self.world.foreign += 1
                    self.world.fatal, self.world.fatal_done = "foreign append", True
                before = log[landed.commit.version - 1].content if landed.commit.version else landed.content
                if landed.commit.data_change or not same(landed.content, before):
                    self.foreign_at = self.foreign_at if self.foreign_at is not None else landed.commit.version
                continue
            document = json.loads(landed.commit.user_metadata or "null")
            if "airflow_backfill_fence" in document:
                self.lanes.fence(landed)
            elif "airflow_backfill_plan" in document:
                self._plan(landed, document)
            elif "airflow_backfill_seen" in document:
                self.announcements.landed(landed, document)
            else:
                self._barrier(landed, document)
            self.marks[landed.commit.version] = self._mark()

    def _mark(self) -> dict[str, Any]:
        """What a rewind brings back."""
        found = {name: copy(getattr(self, name)) for name in _BROUGHT_BACK}
        return found | {"partitions": {name: copy(getattr(self.partitions, name)) for name in _OF_PARTITIONS}}

    def fork(self) -> None:
        """The source was put back."""
        self.forked, at = self.world.steps, self.world.source.forked_at
        self.stale = at is not None and self.stood >= at

    def blind(self, process: str) -> bool:
        """Whether a process has not looked at the source since it was put back, which comes first in its step."""
        return self.forked is not None and self.looks.get(process, 0) < self.forked

    def between(self, process: str) -> bool:
        """Whether a process may have met two histories at once: it is cleared, whatever it says."""
        return process in self.looks and self.blind(process)

    def stands(self, epoch: int, landed: Landed) -> None:
        """Something stands at an epoch: of the history that is no more, if its writer does not know that."""
        at = self.world.source.forked_at
        if epoch > self.stood:
            self.stood, self.stood_at = epoch, landed.commit.version
            self.stale = self.stale or (at is not None and epoch >= at and self.blind(landed.writer))

    def unequal(self, epoch: int, version: int) -> VerificationFailed:
        if self.foreign_at is None and not self.stale and not self.unproven and version >= self.repaired:
            raise Violation(f"verification at epoch {epoch} found version {version} wrong without a foreign commit")
        return VerificationFailed("the target differs", epoch=epoch)

    def check_end(self) -> None:
        """The build was followed to its end: it is finished, and not before its hand-off epoch."""
        self.look()
        if not self.finished:
            raise Violation("upstream ran, but nothing is finished")
        if self.foreign_at is not None and self.foreign_at < self.world.target.head:
            return
        if self.applied is None or self.handoff is None or self.applied < self.handoff:
            raise Violation(f"ended at {self.applied}, the hand-off was at {self.handoff}")

    def _plan(self, landed: Landed, document: dict[str, Any]) -> None:
        must(self.pinned is None, "two plan records landed")
        self.pinned = self.world.pinned = document["source"]["epoch"]
        self.stands(self.pinned, landed)
        if "partitions" in document["splits"]:
            self.partitions.plan(self.pinned, document["splits"]["partitions"])
            self.progress = self.partitions.progress
            return
        if "keys" in document["splits"]:
            self.ranges = [(self.pinned, 0, None)] * (len(document["splits"]["keys"]) + 1)
            self.progress = {split: (-1, 0) for split in range(len(self.ranges))}
            return
        # Whatever files are cut into, and however it is read: borders are borders.
        borders = document["splits"].get("borders") or document["splits"]["blocks"]
        self.progress = {split: (-1, 0) for split in range(len(borders) - 1)}
        self.world.borders = borders

    def _barrier(self, landed: Landed, document: dict[str, Any]) -> None:
        must(self.pinned is not None, "a barrier before the plan")
        self.lanes.barrier(landed, document)
        if document["event"] in ("recover", "rewind"):
            if not self._overtaken(landed, document):
                if document["event"] == "recover":
                    self._recovered(landed.commit.version, document)
                else:
                    self._rewound(landed, document)
                self.recoveries.add(landed.commit.version)
            return
        if landed.commit.data_change and self.foreign_at is not None:
            behind = self.world.processes_begun_before_foreign(landed.writer)
            must(behind, "a round was begun after a foreign commit had been there to see")
        must(not (self.cancelled and landed.commit.data_change), "rows were written after the cancel")
        if landed.commit.data_change and (document["phase"] in ("snapshot", "consume_log") or self.world.target.rules):
            must(not self.world.knew_of_the_bar(landed.writer), "a round was begun although the build cannot get past")
        if self._of_another_history(landed, document):
            self._promises(document)
            return
        self.announcements.check_data(document)
        self._ordered(landed, document["control"])
        self._pending(document)
        self._progress(document)
        if self.handoff is None and document.get("handoff") is not None:
            self.handoff_at = landed.commit.version
        self._promises(document)
        self.unproven = self.unproven and document["event"] not in ("certify", "repair")
        if document["event"] == "repair":
            self.repaired = landed.commit.version
        if self.foreign_at is None:
            self._content(landed, document)

    def _of_another_history(self, landed: Landed, document: dict[str, Any]) -> bool:
        """Whether nobody can say any more what the rows have to be. Then no round is begun on them."""
        knew = document["prev"] >= self.stood_at and not self.blind(landed.writer)
        begun = self.stale and landed.commit.data_change and knew
        must(not begun, "changes of one history were applied to rows of another one")
        for position in document["positions"]:
            if "epoch" in position:
                self.stands(position["epoch"], landed)
        return self.stale

    def _overtaken(self, landed: Landed, document: dict[str, Any]) -> bool:
        """Whether somebody else has changed the target since the writer of a recovery looked: then it does not
        count.
        """
        since = self.world.target.log[document["prev"] + 1 : landed.commit.version]
        return any(one.writer == "" and one.commit.data_change for one in since)

    def _recovered(self, version: int, document: dict[str, Any]) -> None:
        """Nothing of before counts; what was foreign up to then is what the comparison will be about."""
        epoch = document["handoff"]
        for position in document["positions"]:
            must(position == {"splits": position["splits"], "epoch": epoch}, f"recovered at {epoch}, not {position}")
        must(document.get("certificate") is None, "a recovery that calls itself proven")
        must(document["phase"] == "catch_up", "a recovery that is not to be proven")
        self.progress = dict.fromkeys(self.progress, (epoch, WHOLE))
        self.applied = self.handoff = epoch
        self.finished = self.cancelled = False
        self.bound, self.foreign_at, self.unproven = None, None, True
        self.stale, self.stood, self.stood_at = False, epoch, version
        self.announcements.announcing = False
        self.lifted = max(self.lifted, document["control"].get("number", 0))

    def _rewound(self, landed: Landed, document: dict[str, Any]) -> None:
        """The rows are those of the version before, or of one that was restored; and so is what the record says."""
        to = landed.commit.version - 1
        if self.foreign_at is not None:
            to = self._original(to)
        must(landed.content == self.world.target.log[to].content, "the rows are not those of the restored version")
        mark = dict(self.marks[max(version for version in self.marks if version <= to)])
        for name, value in mark.pop("partitions").items():
            setattr(self.partitions, name, copy(value))
        for name, value in mark.items():
            setattr(self, name, copy(value))
        self.foreign_at = None
        self.lifted = max(self.lifted, document["control"].get("number", 0))
        for name in ("handoff", "bound"):
            must(document.get(name) == mark[name], f"a rewind has changed the {name}")
        self._content(landed, document)

    def _original(self, version: int) -> int:
        """The version that a RESTORE has brought back, be it over several of them."""
        for below in range(version, -1, -1):
            commit = self.world.target.log[below].commit
            if commit.restored is not None:
                return self._original(commit.restored)
            if commit.data_change or below in self.recoveries:
                break
        return version

    @property
    def can_be_recovered(self) -> bool:
        """Whether nobody has cancelled the build. What is read of a snapshot in part is repaired."""
        return not self.cancelled and self.pinned is not None

    def _ordered(self, landed: Landed, control: dict[str, Any]) -> None:
        """A cancel that is acknowledged is in force, unless a resume or a recovery was ordered after it."""
        self.lifted = max(self.lifted, self.world.resumed.get(landed.writer, 0))
        number = control.get("number", 0)
        cancels = [n for n, command in self.world.commands if command.verb is Verb.CANCEL and n <= number]
        must(max(cancels, default=0) <= self.lifted or control.get("cancelled", False), "a cancel was swallowed")

    def _pending(self, document: dict[str, Any]) -> None:
        """What the record calls pending is what comes after the epoch at which the target stood before it."""
        if document["event"] not in ("files", "chunks", "seal", "epochs", "pin", "certify", "repair"):
            return
        if self.world.topic:
            head, epochs = document["pending"]["head"], document["pending"]["epochs"]
            must(self.pinned <= head - epochs <= self.partitions.newest, "pending epochs are miscounted")
            return
        together = len(set(self.progress.values())) == 1
        epoch, done = next(iter(self.progress.values()))
        stood = epoch if done == WHOLE else epoch - 1
        head, epochs = document["pending"]["head"], document["pending"]["epochs"]
        base = stood if together and epoch >= 0 else self.ranges[0][0] if self.ranges else self.pinned
        must(epochs == head - base, "pending epochs are miscounted")

    def _progress(self, document: dict[str, Any]) -> None:
        if self.world.topic:
            self.partitions.move(_each(document), document["phase"], document["attempt"])
            self.partitions.count(document["work"])
            self.progress = self.partitions.progress
            return
        if self.ranges and (len(document["positions"]) > 1 or "key" in document["positions"][0]):
            range_judge.move(self.ranges, self.progress, _each(document))
            return
        for split, position in enumerate(_each(document)):
            before = self.progress[split]
            after = self._rank(position)
            if after <= before:
                continue
            if "epoch" not in position or document["event"] == "files":
                self._count_files(split, before, after)
            self.progress[split] = after

    def _rank(self, position: dict[str, Any]) -> tuple[int, int]:
        if "epoch" not in position:
            return (-1, position.get("files", 0))
        return (position["epoch"], position.get("parts_done", WHOLE))

    def _count_files(self, split: int, before: tuple[int, int], after: tuple[int, int]) -> None:
        borders = self.world.borders
        size = borders[split + 1] - borders[split]
        reached = after[1] if after[0] == -1 else size
        for n in range(borders[split] + before[1], borders[split] + reached):
            self.files_read[n] += 1
            must(self.files_read[n] == 1, f"file {n} of the snapshot was appended twice")

    def _promises(self, document: dict[str, Any]) -> None:
        event = document["event"]
        if event == "resume":
            self.handoff = self.bound = None
            self.cancelled = False
        if self.handoff is not None:
            must(document.get("handoff") == self.handoff, "the hand-off epoch moved")
        self.handoff = document.get("handoff")
        self.handoffs |= {self.handoff} - {None}
        if event == "seal":
            self.bound = document["bound"]
        elif self.bound is not None and document.get("bound") is not None:
            must(document["bound"]["value"] <= self.bound["value"], "the bound grew")
            self.bound = document["bound"]
        if event == "pin":
            by = self.world.process(document["attempt"])
            through = by is not None and by.task.startswith("snapshot")
            must(not through or by.gate_was_free, "an application went through a gate that was on hold")
        if event == "cancel":
            self.cancelled = True
        if event == "finish":
            seen = self.foreign_at is not None and self.foreign_at <= document["prev"]
            must(not seen, "finished on a target that somebody else had changed")
            must(document.get("certificate") is not None, "finished without a certificate")
            must(document["certificate"]["epoch"] == self.handoff, "finished with a certificate for another epoch")
            self.finished = self.foreign_at is None
        if event == "certify":
            certificate = document["certificate"]
            proven = (certificate["epoch"], certificate["target_version"]) in self.proofs
            must(proven, "a certificate without a comparison that succeeded")
        if event in ("files", "chunks"):
            must(not self.finished, "a snapshot round after the finish")

    def _content(self, landed: Landed, document: dict[str, Any]) -> None:
        expected: Bag = Counter()
        source, plan_epoch = self.world.source, self.pinned
        assert plan_epoch is not None
        positions = set(self.progress.values())
        if len(positions) == 1 and next(iter(positions))[0] >= 0:
            epoch, done = next(iter(positions))
            expected = self._at(epoch, done, document)
            claimed = epoch if done == WHOLE else epoch - 1
            must(self.applied is None or claimed >= self.applied, "the applied epoch went back")
            replaced = source.replaced_at is not None and epoch >= source.replaced_at
            must(not replaced, "an epoch of another table was applied")
            self.applied = claimed if document["phase"] != "snapshot" else self.applied
        else:
            must(document["phase"] in ("snapshot", "cancelled"), "left the snapshot before it was read")
            if self.ranges:
                rows, borders = source.versions[self.ranges[0][0]].rows, self.world.key_borders or ()
                expected = range_judge.content(self.ranges, self.progress, borders, rows)
            elif self.world.topic:
                expected = self.partitions.content()
            at = source.versions[plan_epoch]
            for n, count in self.files_read.items():
                for row in transform({key: at.rows[key] for key in at.files[n]}).items():
                    expected[row] += count
        if not self.unproven and not same(landed.content, expected):
            missing, extra = expected - landed.content, landed.content - expected
            raise Violation(
                f"after {document['event']} at version {landed.commit.version} the target is wrong: "
                f"missing {dict(missing)}, extra {dict(extra)}, progress {self.progress}"
            )

    def _at(self, epoch: int, done: int, document: dict[str, Any]) -> Bag:
        rows = self.world.source.versions[epoch].rows
        if done == WHOLE:
            return self.world.made(rows)
        now = transform(rows)
        of = document["positions"][0]["parts"]
        before = transform(self.world.source.versions[epoch - 1].rows)
        mixed = {k: v for k, v in now.items() if k % of < done} | {k: v for k, v in before.items() if k % of >= done}
        return Counter(mixed.items())


_BROUGHT_BACK = (
    *("progress", "ranges", "files_read", "applied", "finished", "cancelled", "handoff", "handoff_at", "bound"),
    "unproven",
)
_OF_PARTITIONS = ("known", "no_rows", "sealed", "begins", "taken")


def _each(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The position of each split."""
    return [run for run in document["positions"] for _ in range(run["splits"])]
