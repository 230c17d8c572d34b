"""Splits are units that advance independently; positions say how far each is. Each kind has a module."""
