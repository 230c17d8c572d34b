"""What is said of a row of a topic's build."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_backfill.core.kafka.reach import Fate
from airflow_backfill.core.reports.explained import as_text
from airflow_backfill.core.reports.explained_topic import records, verdict

ROW = {"id": 1, "paid": 2}


def record(offset: int, fate: Fate, *by: str, **more: Any) -> dict[str, Any]:
    values = {"tombstone": False, "undecodable": None, "image": ROW, "made": ROW, "applied_in": None}
    return {"partition": 3, "offset": offset, "at": 0, "kept_by": list(by), "fate": fate.value, **values, **more}


def told(*records: dict[str, Any], **more: Any) -> str:
    one = {"partition": 3, "from": 0, "to": 9_999, "kafka_from": 100, "gone": 2}
    topic = {"name": "clicks", "landing_epoch": 7, "partitions": [one], "error": None, **more}
    found = {"target": "/t", "key": {"id": "1"}, "topic": topic, "records": records, "truncated": False}
    return as_text({**found, "holds": [ROW], "should_hold": [ROW], "verdict": "equal", "why": "because"})


def test_each_record_says_who_has_it_and_what_became_of_it() -> None:
    text = told(
        record(0, Fate.TAKEN, "landing", applied_in={"version": 4, "at": 0}),
        record(1, Fate.TAKEN, "kafka", tombstone=True, made=None),
        record(2, Fate.TAKEN, "kafka", "landing", made=None),
        record(3, Fate.TAKEN, "kafka", undecodable="value is not JSON", image=None, made=None),
        record(4, Fate.MISSED, "kafka"),
        record(5, Fate.PENDING, "kafka"),
        record(6, Fate.PENDING, "kafka", "landing"),
        record(7, Fate.BEFORE, "kafka"),
        record(8, Fate.LATER, "kafka"),
    ).splitlines()
    assert text[:3] == [
        "id=1 in /t",
        "  topic     clicks, partition 3: offsets 0 to 9,999 looked at",
        "  WARNING   partition 3: 2 offsets before 100 are neither in Kafka nor in the landing table: deleted, or "
        "never a record",
    ]
    said = "\n".join(text)
    for part in (
        "offset 0 of partition 3, 1970-01-01 00:00:00Z, only in the landing table; taken in version 4",
        "only in Kafka; taken; the target's log no longer says in which version",
        "no row: a tombstone",
        "in Kafka and in the landing table; taken",
        "'where' leaves it out",
        "cannot be decoded: value is not JSON",
        "never landed, although later records have, so it makes no row",
        "pending: not read yet, or not landed",
        "in the landing table; pending\n",
        "before the start of the history",
        "belongs to the stream that follows",
    ):
        assert part in said
    assert text[-1] == "  proven    because"


def test_nothing_found_and_nobody_asked_are_said() -> None:
    assert "no record of the key" in told() and "only the landing table was read: no broker" in told(
        error={"message": "no broker"}
    )


@pytest.mark.parametrize(
    ("holds", "should", "fates", "said", "why"),
    [
        ([ROW], None, [], "unknown", "so"),
        ([ROW], [ROW], [Fate.TAKEN], "equal", "has taken"),
        ([], [], [Fate.PENDING, Fate.MISSED, Fate.MISSED], "equal", "2 records of the key never landed"),
        ([], [], [Fate.PENDING], "equal", "1 record of the key is still pending"),
        ([], [ROW], [], "differs", "lacks the row"),
        ([ROW], [], [], "differs", "does not have"),
        ([ROW], [{**ROW, "paid": 3}], [], "differs", "differs in paid"),
    ],
)
def test_the_verdict_is_about_what_the_build_has_taken(
    holds: Any, should: Any, fates: Any, said: str, why: str
) -> None:
    found, because = verdict(holds, should, "so", fates)
    assert found == said and why in because


def test_a_record_shows_its_values_and_not_its_place_again() -> None:
    place = {"partition": 3, "offset": 1_200, "timestamp": "1970-01-01T00:00:00Z"}
    undecodable = record(3, Fate.TAKEN, "kafka", undecodable="no JSON", image=None)
    whole = record(1_200, Fate.PENDING, "kafka", image={**place, "headers": None, **ROW})
    headed = record(1_201, Fate.PENDING, "kafka", image={**place, "headers": [{"key": "a"}], **ROW})
    bad, good, more = records({"records": [undecodable, whole, headed]})
    assert bad["had"] is None and bad["made"] == "cannot be decoded: no JSON; it changes no row"
    assert (good["place"], good["had"], good["made"]) == ("offset 1,200 of partition 3", *['{"id": 1, "paid": 2}'] * 2)
    assert more["had"] == '{"headers": [{"key": "a"}], "id": 1, "paid": 2}'
