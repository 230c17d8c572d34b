"""How old an epoch is, if clocks differ by hours: what one clock alone proves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.source.looks import MOST, NEVER, Looks

HOUR = 3_600_000


def looked(*looks: tuple[int, int], after: int = 0) -> Looks:
    found = NEVER
    for head, now in looks:
        found = found.found(head, after, now)
    return found


def test_whoever_looks_for_the_first_time_goes_by_the_clocks() -> None:
    assert looked((8, 100)).age(8, at=40, latest=50, now=100) == 60


def test_an_epoch_is_younger_than_the_last_look_that_did_not_show_it() -> None:
    looks = looked((7, 0), (7, 3 * HOUR), (9, 3 * HOUR + 1_000))
    for number in (8, 9):
        assert looks.age(number, at=0, latest=0, now=3 * HOUR + 1_000) == 1_000
    assert looks.age(7, at=0, latest=0, now=3 * HOUR + 1_000) == 3 * HOUR + 1_000, "when it came is not known"


def test_an_epoch_is_older_than_one_after_it() -> None:
    assert looked((9, 100)).age(8, at=3 * HOUR, latest=4 * HOUR, now=100) == HOUR


def test_looks_in_the_future_are_forgotten() -> None:
    looks = looked((7, 2 * HOUR), (8, HOUR))
    assert looks.age(8, at=0, latest=0, now=HOUR + 5) == HOUR + 5


def test_no_more_is_kept_than_what_is_pending_needs() -> None:
    looks = looked(*((head, head) for head in range(1_000)), after=990)
    assert [head for head, _ in looks.seen] == [*range(990, 1_000)]
    assert looks.age(991, at=0, latest=0, now=1_000) == 10
    assert len(looked(*((head, head) for head in range(2 * MOST))).seen) == MOST


@given(
    st.lists(st.lists(st.integers(0, 10_000), max_size=3), min_size=2, max_size=20),
    st.sampled_from([0, -3 * HOUR, 3 * HOUR]),
    st.sampled_from([0, -3 * HOUR, 3 * HOUR]),
)
def test_right_clocks_are_right_and_others_wrong_by_a_look_at_most(
    gaps: list[list[int]], driver: int, writer: int
) -> None:
    """Between two looks, ten seconds apart, epochs are committed. The clocks are ahead by so much, or behind."""
    committed, looks, now, known = [0], NEVER, 0, 0
    for gap in gaps:
        committed += (now + at for at in sorted(gap))
        now += 10_000
        looks = looks.found(len(committed) - 1, 0, now + driver)
        for number in range(1, len(committed)):
            age = looks.age(number, committed[number] + writer, committed[-1] + writer, now + driver)
            if driver == writer:
                assert age == now - committed[number]
            elif number > known > 0:
                assert age <= 10_000, "the last look did not show it"
        known = len(committed) - 1
