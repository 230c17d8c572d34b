"""The least rights that the documentation names suffice, on a plain file system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.airflow.runs import ROOT

OVERRULED = "-dac_override,-dac_read_search,-fowner"
"""What lets the superuser write whatever the mode bits say."""


def test_a_build_needs_no_more_rights_than_documented(tmp_path):
    command = [sys.executable, "-m", "tests.airflow.rights", str(tmp_path)]
    if os.getuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("the superuser overrules all mode bits, and there is no setpriv to give that up")
        command = ["setpriv", "--bounding-set", OVERRULED, *command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
