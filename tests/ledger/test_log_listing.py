from __future__ import annotations

from airflow_backfill.ledger.log_listing import LogListing, commit_name

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def padded(version: int) -> str:
    return f"{version:020}"


def test_only_commits_checksums_and_whole_checkpoints_count() -> None:
    classic = f"{padded(5)}.checkpoint.parquet"
    named = f"{padded(6)}.checkpoint.{UUID}.parquet"
    as_json = f"{padded(7)}.checkpoint.{UUID}.json"
    parts = [f"{padded(8)}.checkpoint.{n:010}.0000000003.parquet" for n in (1, 2, 3)]
    part_missing = [f"{padded(9)}.checkpoint.{n:010}.0000000003.parquet" for n in (1, 3)]
    others = [
        f"{padded(10)}.{padded(12)}.compacted.json", f"{padded(11)}.{UUID}.json", f"{padded(12)}.json.tmp",
        f"{padded(13)}.JSON", f"{padded(14)}.json.crc", f"{padded(15)}.checkpoint.{UUID}.parquet.tmp", "16.json",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١٧.json",  # noqa: RUF001
        f"{padded(18)}.json\n", "_last_checkpoint", "_staged_commits",
    ]  # fmt: skip
    counted = [commit_name(3), commit_name(4), f"{padded(4)}.crc", classic, named, as_json, *parts]
    listing = LogListing.of([*counted, *part_missing, *others])
    assert listing.commits == {3, 4} and listing.checksums == {4}
    assert listing.checkpoints == {5: (classic,), 6: (named,), 7: (as_json,), 8: tuple(parts)}
    assert listing.head == 8


def test_nothing_has_no_head() -> None:
    assert LogListing.of([]).head is None and LogListing.of([f"{padded(4)}.crc", "x"]).head is None


def test_versions_beyond_nine_digits() -> None:
    assert LogListing.of([commit_name(10**12)]).head == 10**12
