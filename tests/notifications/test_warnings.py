"""Warnings of a build that goes on: told once a day, to everybody, whatever one of them does."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

import pytest
from airflow.sdk import BaseNotifier

from airflow_backfill.notifications.warnings import AGAIN_MS, Warnings

LOG = logging.getLogger("warnings")
MINUTE_MS = 60_000
FINE = {"epochs": 0, "age": 0, "readable": None, "kept": None}
LATE = {"epochs": 1200, "age": 90 * MINUTE_MS, "readable": None, "kept": None}
SHORT = {"epochs": 3, "age": 90 * MINUTE_MS, "readable": 5 * MINUTE_MS, "kept": 95 * MINUTE_MS}


@pytest.fixture
def told():
    return []


@pytest.fixture
def warnings(context, told):
    def made(callbacks, warn_lag=timedelta(hours=1)):
        return Warnings(context, LOG, callbacks, warn_lag)

    return made


def progress(lag, seen=0, **more):
    return {"name": "orders", "target": "/lake/orders", "lag": lag, "seen": seen, **more}


def test_a_callback_is_told_what_is_wrong(warnings, told):
    warnings(told.append).tell(progress(LATE))
    (context,) = told
    assert context["ti"].dag_id == "d"
    assert context["warning"] == {
        "kind": "lag",
        "message": "the oldest of 1,200 pending epochs has been pending for 90.0 minutes",
        "name": "orders",
        "target": "/lake/orders",
    }


def test_nothing_is_told_of_a_build_that_is_well(warnings, told, context):
    warnings(told.append).tell(progress(FINE))
    warnings(told.append, warn_lag=None).tell(progress(LATE))
    assert (told, dict(context["task_state_store"])) == ([], {})


def test_a_build_that_gets_nowhere_is_told(warnings, told):
    warnings(told.append).tell(progress(FINE, health={"condition": "working", "why": "catch_up"}))
    warnings(told.append).tell(progress(FINE, health={"condition": "stuck", "why": "catch_up runs in vain"}))
    assert [(context["warning"]["kind"], context["warning"]["message"]) for context in told] == [
        ("stuck", "catch_up runs in vain")
    ]


def test_each_warning_is_told_once_a_day(warnings, told):
    """Also by a later try, or after the task was deferred."""
    kinds = []
    for seen, lag in ((0, LATE), (1, LATE), (2, SHORT), (AGAIN_MS, SHORT), (AGAIN_MS + 2, SHORT)):
        warnings([told.append]).tell(progress(lag, seen))
        kinds.append([context["warning"]["kind"] for context in told])
        told.clear()
    assert kinds == [["lag"], [], ["retention"], ["lag"], ["retention"]]


@pytest.mark.parametrize("stored", [["lag"], "lag", 5, {"lag": "x"}, {"lag": None}, {"lag": 9 * AGAIN_MS}])
def test_what_is_damaged_or_of_a_wrong_clock_silences_nothing(warnings, told, context, stored):
    """The store outlives a clear: an error here would come again for ever."""
    context["task_state_store"]["warned"] = stored
    for seen in (0, 1):
        assert warnings(told.append).tell(progress(LATE, seen))["known"] == {"lag": 0}
    assert len(told) == 1


@pytest.mark.parametrize("error", [ConnectionError, SystemExit])
def test_a_callback_that_fails_hides_nothing_from_the_next(warnings, told, caplog, error):
    def broken(context):
        raise error("no such channel")

    warnings([broken, told.append]).tell(progress(LATE))
    assert len(told) == 1
    assert "no such channel" in caplog.text


def test_a_callback_that_hangs_holds_nobody_up(warnings, told, caplog, monkeypatch):
    monkeypatch.setattr("airflow_backfill.notifications.warnings.CALLBACK_SECONDS", 0.05)
    answer = threading.Event()
    warnings([lambda context: answer.wait(20), told.append]).tell(progress(LATE))
    assert len(told) == 1 and not answer.is_set()
    assert "has not ended within 0.05 s" in caplog.text
    answer.set()


class Mail(BaseNotifier):
    template_fields = ("text",)

    def __init__(self, text, sent):
        super().__init__()
        self.text, self.sent = text, sent

    def notify(self, context):
        self.sent.append(self.text)


def test_a_notifier_renders_each_warning(warnings, told):
    mail = Mail("{{ warning.name }}: {{ warning.message }}", told)
    warnings(mail).tell(progress(SHORT))
    assert [text[:21] for text in told] == ["orders: the oldest ep", "orders: the oldest of"]
    assert mail.text == "{{ warning.name }}: {{ warning.message }}"
