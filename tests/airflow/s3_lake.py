"""A bucket whose users have the documented rights, with builds on it; and what the documentation's rows say when they
act without one of their rights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.service.request import Request
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.ledger.service_folder import ServiceFolder
from tests.airflow.without_spark import WHOLE as WHOLE_BUILD
from tests.airflow.without_spark import built, commit_to, make_source
from tests.ledger.moto_s3 import moto_s3
from tests.ledger.s3_users import DONE, LATE, OPEN, SPARE, Right, Users, upload

LAKE = "s3a://lake"
REFUSED = re.compile("403 Forbidden|AccessDenied")
SERVICE = f"{LAKE}/{OPEN}/service"
REQUEST = Request("snapshot", "/t", Attempt(7, "me"), (), 1)
APPLICATIONS = {SPARE: 1, OPEN: 3, LATE: 4, DONE: 6}
"""By shop: how many have run."""


def target_of(shop: str) -> str:
    return f"{LAKE}/{shop}/target"


@contextmanager
def new_lake(folder: Path, *shops: str) -> Iterator[Users]:
    """With a source in each of these shops, and a build that is as far as the shop says."""
    with moto_s3("lake") as options, pytest.MonkeyPatch.context() as patch:
        users, source = Users(options, patch), make_source(folder)
        for shop in shops:
            upload(source, f"{LAKE}/{shop}/source")
            if shop in APPLICATIONS:
                built(f"{LAKE}/{shop}/source", target_of(shop), *WHOLE_BUILD[: APPLICATIONS[shop]])
        yield users


def new_epoch() -> None:
    commit_to(f"{LAKE}/{DONE}/source")


def new_request() -> None:
    ServiceFolder.at(SERVICE).ask(REQUEST)


def new_litter() -> None:
    """There is something that is not needed any more."""
    reader = BuildReader(target_of(OPEN))
    reader.control.store_part("of a proof", {})
    open_store(f"{reader.target}.backfill").put("explanations/000000001.json", b'{"at": 0, "explanation": {}}')
    failed = {"code": "TARGET_BUSY", "message": "a key: 1", "data": {}, "at": 0}
    reader.control.store_outcome(reader.draw_attempt({"task": "snapshot"}), failed)


def said(acts: Iterable[Callable[[], Any]]) -> str:
    """What is said to whoever acts, up to the first refusal."""
    told = ""
    for act in acts:
        if REFUSED.search(told):
            break
        try:
            told += f"{act()}\n"
        except Exception as error:
            told += f"RAISED: {error}\n"
    return told


def check(acts: str, missing: Right | None) -> None:
    """What was said names the right that is missing, by its folder; nothing has failed if none is."""
    assert bool(REFUSED.search(acts)) == ("SOURCE_UNAVAILABLE" in acts) == (missing is not None), acts
    assert missing is not None or "RAISED" not in acts, acts
