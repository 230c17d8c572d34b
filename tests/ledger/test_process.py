from __future__ import annotations

import os
import subprocess
import sys

from airflow_backfill.ledger.process import lives, named, own_name


def test_a_process_lives_until_it_is_killed_even_if_nobody_has_reaped_it() -> None:
    assert lives(own_name())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        name = named(process.pid)
        assert name is not None and lives(name)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is a zombie
        assert not lives(name)


def test_another_process_of_the_same_number_is_not_taken_for_it() -> None:
    assert not lives(f"{os.getpid()}:1") and not lives("of nobody") and not lives("0")
