"""Pieces of a source are put together without an overlap and without a gap."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_backfill.core.values.piece import Line, Piece, cover

FIRST, LENGTH = 3, 12


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    low = draw(st.integers(0, FIRST + LENGTH))
    borders = sorted(draw(st.sets(st.integers(low, FIRST + LENGTH + 3), min_size=2, max_size=4)))
    of = draw(st.sampled_from([1, 1, 2, 3]))
    runs = tuple(zip(borders[::2], borders[1::2], strict=False))
    return Piece(draw(st.sampled_from(Line)), runs, draw(st.integers(0, of - 1)), of)


def numbers(piece: Piece) -> list[tuple[int, int, int]]:
    """Each number of a piece in each of six buckets, of which any bucket of one, two or three is some."""
    share = range(6) if piece.of == 1 else range(piece.bucket * 6 // piece.of, (piece.bucket + 1) * 6 // piece.of)
    return [(n, bucket, 1) for start, stop in piece.runs for n in range(start, stop) for bucket in share]


@given(st.lists(pieces(), max_size=8))
@example([Piece(Line.EPOCHS, ((4, 8),)), Piece(Line.EPOCHS, ((6, 9),))])
@example([Piece(Line.EPOCHS, ((4, 8),), 1, 2)])
def test_chosen_and_missing_pieces_are_the_whole_once(given_: list[Piece]) -> None:
    found = cover(given_, Line.EPOCHS, range(FIRST, FIRST + LENGTH))
    assert set(found.chosen) <= set(given_)
    assert {piece.line for piece in (*found.chosen, *found.missing)} <= {Line.EPOCHS}
    both = [number for piece in (*found.chosen, *found.missing) for number in numbers(piece)]
    assert sorted(both) == [(n, bucket, 1) for n in range(FIRST, FIRST + LENGTH) for bucket in range(6)]


def test_rounds_that_follow_each_other_leave_nothing() -> None:
    rounds = [Piece(Line.FILES, ((0, 2), (5, 6))), Piece(Line.FILES, ((2, 5), (6, 9)))]
    epochs = [Piece(Line.EPOCHS, ((4, 6),)), *(Piece(Line.EPOCHS, ((6, 7),), bucket, 3) for bucket in range(3))]
    assert cover([*rounds, *epochs], Line.FILES, range(9)).missing == []
    assert cover([*rounds, *epochs], Line.EPOCHS, range(4, 7)).missing == []


def test_what_is_missing_is_named_in_runs() -> None:
    found = cover([Piece(Line.FILES, ((2, 4),)), Piece(Line.FILES, ((6, 7),), 0, 2)], Line.FILES, range(9))
    assert found.missing == [Piece(Line.FILES, ((0, 2),)), Piece(Line.FILES, ((4, 9),))]


@given(pieces())
def test_a_piece_survives_its_document(piece: Piece) -> None:
    assert Piece.from_json(piece.to_json()) == piece


@pytest.mark.parametrize(
    "changes",
    [
        {"line": "rows"},
        {"runs": [[3, 3]]},
        {"runs": [[-1, 3]]},
        {"bucket": 2},
        {"of": 0},
        {"more": 1},
        {"runs": 3},
        {"runs": [3]},
    ],
)
def test_a_damaged_document_is_no_piece(changes: dict[str, object]) -> None:
    document = {"line": "files", "runs": [[0, 3]], "bucket": 0, "of": 2, **changes}
    with pytest.raises(ValueError):
        Piece.from_json(document)
