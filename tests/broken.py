"""The package with one deliberate edit, under the tests that are named for it: do they notice?"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest
from hypothesis import Phase, settings

from tests.mutation import PACKAGE, Edit, mutated

ENDED = 100
"""Added to the exit code of tests that have run to their end."""
PATIENCE = 120
"""Seconds that the tests of a behaviour have; what never ends is no failure."""


@dataclass(frozen=True)
class Broken(Edit):
    """``name``: the behaviours (docs/behaviours) that the edit breaks, a colon, and how."""

    @property
    def items(self) -> list[str]:
        return self.name.partition(":")[0].split()


def noticed(edit: Edit, tests: Sequence[str], patience: float = PATIENCE) -> bool:
    """Whether one of these tests fails with the edit: in a process of its own, which has imported nothing of the
    package.

    It is forked from one that begins empty, so that no JVM and no thread of this one is in it.
    """
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["pytest", "hypothesis"])
    child = forks.Process(target=_run, args=(edit, tests))
    child.start()
    child.join(patience)
    if child.exitcode is None:
        child.kill()
    if child.exitcode not in (ENDED + pytest.ExitCode.OK, ENDED + pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"{edit.name}: the tests did not come to an end (exit code {child.exitcode})")
    return child.exitcode == ENDED + pytest.ExitCode.TESTS_FAILED


def _run(edit: Edit, tests: Sequence[str]) -> None:
    # That an example fails is enough: no smaller one is looked for, and none is kept for the next run of the suite.
    # Every run has the same examples, so that a bug is noticed always or never, and not by chance.
    settings.register_profile(
        "broken", phases=(Phase.explicit, Phase.generate), database=None, derandomize=True, max_examples=400
    )
    settings.load_profile("broken")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with (
        mutated(edit, PACKAGE, "tests"),
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "", *tests])
    os._exit(ENDED + code)  # a thread that a test has left behind may never end
