"""What may befall a build: what it has to survive, and what has to end it by name."""

from __future__ import annotations

from airflow_backfill.core.values.control import Command, Verb

BENIGN = {
    "crash": 0.03,
    "sleep": 0.03,
    "lost response": 0.15,
    "lost request": 0.1,
    "target optimize": 0.02,
    "target property": 0.01,
    "source optimize": 0.05,
    "command": 0.03,
    "verifier error": 0.3,
    "twin": 0.02,
    "clear": 0.02,
    "lanes": 0.3,
    "cancel": 0.01,
    "early": 0.03,
    "peek": 0.02,
    "big epoch": 0.5,
}
"""Faults that a build has to survive, with how often they happen a step (or a chance)."""

OF_TOPICS = {
    "repeat": 0.02,
    "partition": 0.01,
    "broker": 0.1,
}
"""The same, of a topic and its ingestion."""

RETENTION = 0.02
"""And how often Kafka deletes what has landed, in the worlds that have that."""

CALM = 2500
"""Steps after which no new fault happens: from then on the attempt that Airflow knows has to finish."""

AFTERWARDS = {
    "rewind": 0.5,
    "recovery": 0.7,
    "other history": 0.3,
    "wrong epoch": 0.2,
    "left wrong": 0.2,
    "repair": 0.7,
    "cure": 0.6,
    "restart": 0.3,
}
"""What people do about a target that somebody else changed: restore it, or put it right and go on from an epoch. The
rows may stay wrong, or the epoch be a wrong one: then a repair may follow. About anything else: remove the cause and
clear the task; or drop the target and plan the build again.
"""

CURABLE = ("replace source", "clean log", "vacuum", "target rule")
"""What somebody can undo: the table is moved back, its files are restored from a backup, a property is taken off."""

FATAL = {
    "foreign append": "TARGET_DIVERGED",
    "restore": "TARGET_DIVERGED",
    "replace source": "SOURCE_REPLACED",
    "drop column": "SCHEMA_CHANGED",
    "clean log": "HISTORY_LOST",
    "vacuum": "HISTORY_LOST",
}
"""Faults that have to end a build by name, if they happen before it is finished."""

FATAL_TO_TOPICS = {name: code for name, code in FATAL.items() if name != "vacuum"} | {
    "replace topic": "SOURCE_REPLACED",
    "expire": "KAFKA_LOST",
}
"""The same, of a topic and its landing table. Those of the topic alone end it only while its history is read."""

ENDS = (
    FATAL
    | FATAL_TO_TOPICS
    | {"delete": "NOT_APPEND_ONLY", "put back": "SOURCE_REPLACED", "quiet append": "TARGET_DIVERGED"}
    | {"target rule": "UNSAFE_OPTION"}
)
"""The same, with what can only befall a source to which rows are only added, and what only befalls a world that is
made for it.
"""

COMMANDS = (
    Command(Verb.PAUSE),
    Command(Verb.RESUME),
    Command(Verb.RESUME),
    Command(Verb.THROTTLE, rate=2),
    Command(Verb.THROTTLE, rate=0),
    Command(Verb.THROTTLE, rate=None),
    Command(Verb.HOLD),
    Command(Verb.RELEASE),
    Command(Verb.RELEASE),
)
"""What people order at any time, mostly what keeps a build going."""
