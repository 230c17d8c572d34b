"""Whole builds in the simulated world: the invariants hold after every step, under every seed."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

import pytest

from tests.simulation.faults import FATAL, FATAL_TO_TOPICS
from tests.simulation.invariant import Violation
from tests.simulation.world import World

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "44"))
SEEDS_OF_TOPICS = 28
SEEDS_OF_HISTORIES = 30
SEEDS_OF_APPLICATIONS = 30
SEEDS_OF_PROOFS = 20
FIRST = int(os.environ.get("SIMULATION_FIRST", "0"))
RARE = (50, 102, 153)
RARE_OF_TOPICS = (39, 46)
"""Seeds that reach a fatal fault which the first ones do not."""

PAST_FAILURES = {
    "table": (22, 35, 39, 48, 95, 149, 1104, 1813, 2025, 2037, 2870, 2871, 100018, 303023),
    "chain": (241, 200514, 405789, 600522, 700097),
    "topic without keys": (6, 34, 51, 55, 112, 240, 262, 293, 1587, 201620, 201684, 303156, 303920, 403380, 403760),
    "topic": (719, 100196, 100716, 102460, 104532, 900000),
    "topic, one application": (200520,),
    "any": (525, 723, 201238, 902991),
}
"""Seeds that once found something, run for ever."""
KINDS: dict[str, dict[str, Any]] = {
    "table": {"chain": False},
    "chain": {"chain": True},
    "topic without keys": {"topic": True, "keyed": False},
    "topic": {"topic": True},
    "topic, one application": {"topic": True, "through": True},
    "any": {},
}


def ended(world: World) -> World:
    """The world after its run; what breaks names the seed."""
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"seed {world.seed}: {error}") from error
    return world


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in PAST_FAILURES.items() for seed in seeds])
def test_a_seed_that_once_failed(kind: str, seed: int) -> None:
    World(seed, **KINDS[kind]).run()


def test_every_seed_of_a_topic_ends_as_it_must() -> None:
    outcomes: Counter[str] = Counter()
    for seed in (*range(SEEDS_OF_TOPICS), *RARE_OF_TOPICS):
        world = ended(World(seed, topic=True))
        outcomes[world.outcome] += 1
        outcomes["TARGET_DIVERGED"] += world.happened["rewind"] > 0
    print(dict(outcomes))
    assert outcomes["DONE"] >= SEEDS_OF_TOPICS // 3
    assert set(FATAL_TO_TOPICS.values()) <= set(+outcomes), "a fatal fault that no seed reached proves nothing"


def test_one_application_goes_through_the_gate_and_to_the_end() -> None:
    """For as long as nothing stops it; what is left, the tasks of the later phases do."""
    ends: Counter[str] = Counter()
    for seed in range(SEEDS_OF_APPLICATIONS):
        world = World(seed, topic=seed % 4 == 0, through=True)
        ended(world)
        texts = (landed.commit.user_metadata for landed in world.target.log)
        by = [json.loads(text) for text in texts if text]
        last = [one["attempt"].startswith("snapshot") for one in by if one.get("event") in ("pin", "certify", "finish")]
        ends[world.outcome] += 1
        ends["went through"] += last[-1:] == [True]
        ends["was stopped"] += True in last and not last[-1]
    print(dict(ends))
    assert ends["DONE"] >= SEEDS_OF_APPLICATIONS // 2, ends
    assert ends["went through"] >= 4 and ends["was stopped"] >= 2, ends


def test_what_a_build_has_read_adds_up_to_its_source_and_proves_no_other_rows() -> None:
    """Also where digests are lost, damaged and joined, and where the source is put back from a backup and somebody goes
    on from an epoch of the other history.
    """
    kinds: Counter[str] = Counter()
    for seed in range(SEEDS_OF_PROOFS):
        world = World(seed, adds_up=True, trouble="put back" if seed % 2 else None)
        world.fatal_at //= 2
        world.faults["other history"] = 1.0
        ended(world)
        texts = (landed.commit.user_metadata for landed in world.target.log)
        proofs = [one["certificate"] for one in map(json.loads, filter(None, texts)) if one.get("event") == "certify"]
        kinds.update(proof.get("kind", "full") for proof in proofs)
        kinds["read again"] += any("reread" in proof for proof in proofs)
        kinds["other history"] += world.happened["other history"] > 0
    print(dict(kinds))
    assert kinds["incremental"] >= SEEDS_OF_PROOFS // 2 and kinds["read again"] >= SEEDS_OF_PROOFS // 10, kinds
    assert kinds["full"] >= 3 and kinds["other history"] >= 1, kinds


@pytest.mark.parametrize(("task", "known"), [("finish", 1), ("upstream", 35)])
def test_a_memory_that_is_dropped_too_early_brings_back_what_was_deleted(task: str, known: int) -> None:
    """``known``: the seed that noticed it last, tried first."""
    for seed in (known, *range(60)):
        world = World(seed, topic=True, keyed=True)
        world.forgets = task
        if world.ordered:
            try:
                world.run()
            except Violation as violation:
                assert "extra" in str(violation)
                return
    raise AssertionError("60 seeds noticed nothing")


def test_every_seed_ends_as_it_must() -> None:
    outcomes: Counter[str] = Counter()
    for seed in (*range(FIRST, FIRST + SEEDS), *RARE):
        outcomes[ended(World(seed)).outcome] += 1
    print(dict(outcomes))
    assert outcomes["DONE"] >= SEEDS // 3
    assert {*FATAL.values(), "NOT_APPEND_ONLY"} <= set(outcomes), "a fatal fault that no seed reached proves nothing"


def test_a_source_that_is_put_back_from_a_backup_is_followed_no_further_than_it_is_the_same() -> None:
    """Under tables, chains and topics, before the hand-off and after it: a build ends by name where anything that it
    has applied or announced is taken back, and goes on where nothing is.
    """
    ends: Counter[tuple[bool, bool, str]] = Counter()
    for seed in range(SEEDS_OF_HISTORIES):
        world = World(seed, trouble="put back", topic=seed % 2 == 0)
        world.fatal_at //= 2
        ended(world)
        ends[world.judge.forked is not None, world.judge.stale, world.outcome] += 1
    print(dict(ends))
    assert ends[True, True, "SOURCE_REPLACED"] >= SEEDS_OF_HISTORIES // 5, ends
    assert ends[True, False, "DONE"] >= SEEDS_OF_HISTORIES // 20, ends
    assert not ends[True, True, "DONE"] and not ends[True, False, "SOURCE_REPLACED"], ends


def test_a_row_that_comes_without_data_change_is_noticed() -> None:
    for seed in range(10):
        world = World(seed, trouble="quiet append")
        world.faults |= {"recovery": 0, "rewind": 0}
        world.run()
        assert world.outcome == ("TARGET_DIVERGED" if world.foreign and world.judge.foreign_at else "DONE"), seed


def test_a_rule_of_the_target_stops_what_is_written_until_it_is_taken_off() -> None:
    ends: Counter[str] = Counter()
    for seed in range(30):
        world = World(seed, trouble="target rule", topic=seed % 3 == 0)
        world.fatal_at //= 2
        world.run()
        ends[world.outcome] += world.fatal_done
    assert ends["DONE"] >= 5 and ends["UNSAFE_OPTION"] >= 5, ends


@pytest.mark.parametrize("trouble", ["drop column", "replace source"])
def test_what_happened_to_the_source_is_undone_and_the_build_goes_on(trouble: str) -> None:
    """The columns come back, and the build goes on from that epoch by a recovery and a repair. Or the table comes back
    by a RESTORE, and its task is cleared.
    """
    ends: Counter[str] = Counter()
    for seed in range(20):
        world = World(seed, trouble=trouble)
        world.faults |= {"recovery": 1.0, "repair": 1.0, "cure": 1.0}
        world.fatal_at //= 2
        ended(world)
        if world.fatal_done and not world.source.appends:
            ends[world.outcome] += 1
    assert ends["DONE"] >= 5 and set(ends) == {"DONE"}, ends


def test_a_target_that_is_restored_goes_on_from_its_records() -> None:
    """Whatever else works on the build while somebody rewinds it, other rewinds included."""
    ends: Counter[str] = Counter()
    for seed in range(24):
        world = World(seed, trouble="restore" if seed % 2 == 0 else "foreign append", topic=seed % 4 < 2)
        world.faults |= {"rewind": 1.0}
        world.fatal_at //= 2
        ended(world)
        if world.happened["rewind"]:
            ends[world.outcome] += 1
    print(dict(ends))
    assert ends["DONE"] >= 16, ends


def test_a_recovery_is_believed_after_its_proof_only() -> None:
    """A target that somebody changed behind the snapshot, and put right or not; the named epoch is right or wrong;
    what is wrong may be repaired.
    """
    ends: Counter[tuple[bool, bool, str]] = Counter()
    for seed in range(120, 160):
        world = World(seed)
        world.fatal, world.fatal_at = "restore", 3 * seed - 210
        world.faults |= {"rewind": 0, "recovery": 1.0, "wrong epoch": 0.3, "left wrong": 0.3, "repair": 0.4}
        ended(world)
        if world.happened["recovery"]:
            ends[world.misnamed, world.happened["repair"] > 0, world.outcome] += 1
    print(dict(ends))
    assert ends[False, False, "DONE"] >= 5, ends
    assert ends[True, False, "VERIFICATION_FAILED"] >= 2 and ends[True, True, "DONE"] >= 2, ends
    assert not ends[True, False, "DONE"], ends
