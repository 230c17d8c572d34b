"""Whole numbers as bits: 64 neighbours are one word, so that a word tells which of them there are."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_WORD_BITS = 6


def word_of(number: Column) -> Column:
    """The word that holds a number (a long)."""
    return F.shiftright(number, _WORD_BITS)


def bit_of(number: Column) -> Column:
    """A word in which only this number's bit is set."""
    place = number.bitwiseAND(F.lit((1 << _WORD_BITS) - 1).cast("long")).cast("int")
    return F.call_function("shiftleft", F.lit(1).cast("long"), place)
