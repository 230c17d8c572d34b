"""The command line of the applications: what is wrong with it is a coded error, before any Spark starts."""

from __future__ import annotations

import random
import shlex
from argparse import Namespace

import pytest

from airflow_backfill.core.errors import BackfillError, InvalidSpec
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.run.application import main
from airflow_backfill.spark.run.next_phases import following
from airflow_backfill.spark.run.phases import APPLICATIONS, checked, parser, size
from airflow_backfill.spark.session import settings

ODD = ("", "x", "-1", "0", "1", "nan", "inf", "1e400", "9" * 400, "٣", "--", "-x", "'", '"', "\\", "s3a://AK:SK@b/x")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("snapshot --lanes 0", "lanes: must be at least 1"),
        ("snapshot --lanes 2 --lane 2", "lane: lanes are counted from 0, and there are 2"),
        ("consume_log --patience 0", "patience: must be at least 1"),
        ("upstream --max-runtime nan", "max_runtime: must be at least 0"),
        ("recover --epoch -1", "epoch: must be at least 0"),
        ("explain", "explain: the following arguments are required: --key; see --help"),
        ("plan --spec {} --on-existing drop", "invalid choice: 'drop'"),
    ],
)
def test_a_number_without_sense_is_refused_by_its_name(line: str, why: str) -> None:
    application, *words = shlex.split(line)
    with pytest.raises(InvalidSpec) as raised:
        checked(parser(application).parse_args(["--target", "/t", *words]))
    assert why in str(raised.value)


def test_a_phase_that_cannot_follow_is_refused() -> None:
    for line in ("", "'", "plan", "verify --lanes 3", "verify --epoch"):
        with pytest.raises(InvalidSpec):
            following(Namespace(then=[line], target="/t"))


def test_any_command_line_is_taken_or_refused_with_a_code() -> None:
    rng = random.Random(17)
    for _ in range(3_000):
        application = rng.choice(list(APPLICATIONS))
        known = [option for action in parser(application)._actions for option in action.option_strings]
        words = ["--target", "/t", *(rng.choice([*known, *ODD]) for _ in range(rng.randrange(6)))]
        if {"-h", "--help"} & set(words):
            continue
        try:
            checked(parser(application).parse_args(words))
            following(Namespace(then=[" ".join([application, *words[2:]])], target="/t"))
        except BackfillError as error:
            assert error.code == "SPEC_INVALID" and "SK@" not in str(error), words


@pytest.mark.parametrize("words", [["--lanes"], ["--target", ""], ["--target", "relative"]], ids=" ".join)
def test_a_wrong_command_line_starts_no_spark(words: list[str]) -> None:
    assert main("snapshot", words) == 2


def test_a_round_follows_from_the_cores_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = object()
    monkeypatch.setattr(settings, "cluster_cores", {spark: 64}.__getitem__)
    options = [parser("snapshot").parse_args(["--target", "/t", *more]) for more in ((), ("--round-rows", "7"))]
    assert [size(one, spark) for one in options] == [RoundSize.on(64), RoundSize.on(64, rows=7)]
    assert size(options[0]) == RoundSize()
