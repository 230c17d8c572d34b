"""How a proof hashes a row: to 128 bits, either way."""

from __future__ import annotations

from enum import Enum


class RowHash(str, Enum):
    TYPED = "typed"
    """Two 64-bit xxHashes of the typed values. Fast. Finds accidents; who knows the hash can make rows that collide."""
    SHA256 = "sha256"
    """SHA-256 of the row's canonical text. Takes more than twice as long. Nobody can make rows that collide."""
