"""Sets of whole numbers as bitmaps: each 64-bit word says which of 64 neighbouring numbers are in the set.

A set of pairs of numbers works alike: a word holds eight neighbours of one number times eight of the other.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_WORD_BITS = 6
_HALF_BITS = 3


def word_of(number: Column) -> Column:
    """The word that holds a number (a long)."""
    return F.shiftright(number, _WORD_BITS)


def bit_of(number: Column) -> Column:
    """A word in which only this number's bit is set."""
    return _bit(_lowest(number, _WORD_BITS))


def word_of_pair(first: Column, second: Column) -> tuple[Column, Column]:
    """The word that holds two numbers, as two longs."""
    return F.shiftright(first, _HALF_BITS), F.shiftright(second, _HALF_BITS)


def bit_of_pair(first: Column, second: Column) -> Column:
    """A word in which only the bit of these two numbers is set."""
    return _bit(F.shiftleft(_lowest(first, _HALF_BITS), _HALF_BITS) + _lowest(second, _HALF_BITS))


def _lowest(number: Column, bits: int) -> Column:
    return number.bitwiseAND(F.lit((1 << bits) - 1).cast("long")).cast("int")


def _bit(place: Column) -> Column:
    return F.call_function("shiftleft", F.lit(1).cast("long"), place)
