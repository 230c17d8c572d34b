"""Decisions on committed facts: the hand-off gate, and the admission of writers."""
