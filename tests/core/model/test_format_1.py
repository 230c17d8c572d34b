"""Documents of format 1 are read as strictly as the version that wrote them read them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.model import announcement, record
from tests.core.documents import damaged
from tests.golden.archive import DOCUMENTS

FORMAT_1 = DOCUMENTS / "format_1"
LISTS = ("layout", "epochs", "source", "bound", "pending", "certificate", "news")


def documents(start: str) -> dict[str, dict[str, Any]]:
    return {file.stem: json.loads(file.read_text()) for file in FORMAT_1.glob(f"{start}_*.json")}


RECORDS = documents("record")


def holding(field: str) -> dict[str, Any]:
    """A record that has this field."""
    return copy.deepcopy(next(found for found in RECORDS.values() if field in found))


@pytest.mark.parametrize("field", [*LISTS, "others"])
@pytest.mark.parametrize("change", ["shorter", "longer", "an object", "a switch in it"])
def test_a_list_of_another_length_or_type_is_refused(field: str, change: str) -> None:
    found = holding(field)
    holder, place = (found[field], next(iter(found[field]))) if field == "others" else (found, field)
    values = holder[place]
    holder[place] = {
        "shorter": values[:-1],
        "longer": [*values, 0, 0],
        "an object": dict(enumerate(values)),
        "a switch in it": [False, *values[1:]],
    }[change]
    with pytest.raises(RecordInvalid):
        record.decode(json.dumps(found))


@pytest.mark.parametrize("last", [[False], [-1], ["0"], [0, 0], [0, False], [0, -1]], ids=repr)
def test_a_certificate_counts_what_is_gone_and_lost_or_is_refused(last: list[Any]) -> None:
    found = holding("certificate")
    found["certificate"] = [*found["certificate"][:6], *last]
    with pytest.raises(RecordInvalid):
        record.decode(json.dumps(found))
    found["certificate"] = [*found["certificate"][:6], 3, 4]
    read = record.decode(json.dumps(found)).certificate
    assert read is not None and (read.gone, read.lost) == (3, 4)


@pytest.mark.parametrize("name", ["record_epochs", "record_chunks", "record_close"])
def test_damage_gives_a_record_or_record_invalid(name: str) -> None:
    refused = 0
    for document in damaged(RECORDS[name]):
        try:
            record.decode(json.dumps(document))
        except RecordInvalid:
            refused += 1
    assert refused > 500


@pytest.mark.parametrize("mark", [True, 1.0, "1", 0, 3, None])
def test_an_announcement_says_its_format_as_a_whole_number(mark: Any) -> None:
    found = next(iter(documents("announcement").values()))
    announcement.decode(json.dumps(found))
    with pytest.raises(RecordInvalid):
        announcement.decode(json.dumps({**found, "airflow_backfill_seen": mark}))
