from airflow_backfill.core.values.differing import how_many_differ


def test_how_many_keys_differ_and_how() -> None:
    said = "1,209 keys differ (1,200 missing in the target, 1 only in the target, 8 with other values)"
    assert how_many_differ({"missing": 1200, "extra": 1, "stale": 8}, keyed=True) == said
    assert how_many_differ({"stale": 1}, keyed=True) == "1 key differs (1 with other values)"
    assert how_many_differ({"extra": 2}, keyed=False) == "2 rows differ (2 only in the target)"
