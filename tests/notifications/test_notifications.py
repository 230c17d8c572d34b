"""The mail that ``docs/notifications.md`` shows: sent of every task that fails, whatever it failed with."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import BundleDagBag

PAGE = Path(__file__).parents[2] / "docs" / "notifications.md"
CODED = {"code": "KEY_NULL", "message": "2 keys are null", "way_out": "Correct them."}


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"failure": CODED}, ("orders.plan: KEY_NULL", "2 keys are null Correct them.")),
        ({"exception": TimeoutError("Timeout")}, ("orders.plan: failed", "Timeout")),
        ({}, ("orders.plan: failed", "The log says why.")),
    ],
    ids=["a coded error", "a timeout of Airflow's", "a worker that was killed"],
)
def test_a_mail_is_sent_of_every_failure(tmp_path, monkeypatch, context, said):
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "told.py").write_text(code)
    dag = BundleDagBag(dag_folder=str(tmp_path), bundle_path=tmp_path, bundle_name="told").dags["orders_told"]
    mail, sent = dag.default_args["on_failure_callback"], []
    monkeypatch.setattr(mail, "notify", lambda context: sent.append((mail.subject, mail.html_content)))
    mail({"dag": dag, "ti": SimpleNamespace(task_id="orders.plan"), **context})
    assert sent == [said]
