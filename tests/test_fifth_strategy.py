"""A strategy that the package does not know: plan, gate, verification and finish, in the simulated world."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.model import registry
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.splits.files import FileSplits
from tests import fifth_strategy
from tests.fifth_strategy import NAME, Blocks
from tests.simulation.draft import draft
from tests.simulation.world import World

SEEDS = [seed for seed in range(40) if World(seed, chain=False).key_borders is None]


def backwards(world: World) -> Plan:
    plan = draft(world)
    files = plan.splits
    assert isinstance(files, FileSplits)
    blocks = Blocks(files.borders, files.bytes, files.rows)
    return replace(plan, spec=replace(plan.spec, strategy=NAME), splits=blocks)


@pytest.fixture(autouse=True)
def _registered() -> None:
    fifth_strategy.register()


def test_it_is_known_by_its_name() -> None:
    spec = {"name": "b", "source": "/s", "target": "/t", "key": ["k"], "strategy": NAME}
    assert BackfillSpec.parse(spec).strategy in registry.names()
    with pytest.raises(InvalidSpec, match=NAME):
        BackfillSpec.parse(spec | {"strategy": "forwards"})


def test_its_plan_comes_back_from_its_text() -> None:
    plan = backwards(World(SEEDS[0], chain=False, adds_up=False))
    assert Plan.from_json(plan.to_json()) == plan


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match=NAME):
        registry.register(fifth_strategy.Backwards())


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_its_builds_end_as_they_must(seed: int) -> None:
    world = World(seed, chain=False, adds_up=False, draft=backwards)
    world.run()
    assert world.stored_plan is not None
    assert world.stored_plan.spec.strategy == NAME
