"""The spec: what the user asks for, checked as far as possible without opening a table.

The spec says what is built from what, and its fingerprint identifies the build. How a task works (lanes, round sizes,
lag) is not part of it, and may differ between attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from typing import Any

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.kafka.topic_spec import TopicSpec
from airflow_backfill.core.model.registry import AUTO, lets_keys_be_missing, names, registered
from airflow_backfill.core.values.document import fingerprint
from airflow_backfill.core.values.options import (
    NAME,
    check_known,
    check_size,
    choice,
    invalid,
    location,
    normal,
    text,
    texts,
    versions,
)
from airflow_backfill.core.values.proof_kind import ProofKind

NEW_COLUMNS = ("stop", "ignore")
CLUSTERINGS = ("none", "key")


@dataclass(frozen=True, slots=True)
class BackfillSpec:
    """One target built from one source.

    ``source`` and ``target`` are absolute paths or URIs of Delta tables. ``key`` names the source columns that
    identify a row; some strategies do not need it. ``select`` is a list of SQL expressions (None: all columns of the
    planned schema), ``where`` a SQL condition. ``new_columns`` says what to do when the source gets a new column:
    "stop" or "ignore". With a ``topic``, ``source`` is the topic's landing table, or None if there is none; ``select``,
    ``where`` and ``key`` then name columns of the decoded records. ``functions`` are the user's functions in these
    expressions, with their versions. With ``proof`` "incremental", the digest of the source is added up while the
    target is built. With ``clustering`` "key", the target is clustered by its key.
    """

    name: str
    source: str | None
    target: str
    key: tuple[str, ...]
    select: tuple[str, ...] | None = None
    where: str | None = None
    strategy: str = "snapshot"
    new_columns: str = "stop"
    topic: TopicSpec | None = None
    functions: Mapping[str, str] = field(default_factory=dict)
    proof: ProofKind = ProofKind.FULL
    clustering: str = "none"

    @staticmethod
    def parse(options: Mapping[str, Any]) -> BackfillSpec:
        """The spec in ``options``. Raises InvalidSpec with field, value and fix. Opens nothing."""
        if not isinstance(options, Mapping):
            raise InvalidSpec(f"the spec must be a mapping of options, not {type(options).__name__}")
        check_known(options, [f.name for f in fields(BackfillSpec)])
        check_size(options)
        spec = BackfillSpec(
            name=text(options, "name"),
            source=None if _topic_alone(options) else location(options, "source"),
            target=location(options, "target", beside=".backfill"),
            key=() if _keyless(options) else texts(options, "key"),
            select=texts(options, "select") if options.get("select") is not None else None,
            where=text(options, "where") if options.get("where") is not None else None,
            strategy=choice(options, "strategy", (*names(), AUTO)),
            new_columns=choice(options, "new_columns", NEW_COLUMNS),
            topic=TopicSpec.parse(options["topic"]) if options.get("topic") is not None else None,
            functions=versions(options, "functions") if options.get("functions") is not None else {},
            proof=ProofKind(choice(options, "proof", [kind.value for kind in ProofKind])),
            clustering=choice(options, "clustering", CLUSTERINGS),
        )
        spec._check()
        return spec

    def _check(self) -> None:
        if not NAME.match(self.name):
            raise invalid("name", self.name, "use 1 to 100 letters, digits, '_', '.' or '-'")
        wanting = [name for name in names() if registered(name).needs_topic]
        if (self.topic is not None) != (self.strategy in wanting):
            raise invalid("topic", None, f"needs strategy={' or '.join(map(repr, wanting))}, which also needs a topic")
        if self.source is None and self.topic is not None and self.topic.checkpoint is not None:
            raise invalid(
                "topic.checkpoint", self.topic.checkpoint, "needs a landing table; name it in source, or remove this"
            )
        self._check_proof()
        if self.clustering == "key" and not self.key:
            raise invalid("clustering", self.clustering, "the build has no key; name one, or remove the option")
        if len({column.lower() for column in self.key}) != len(self.key):
            raise invalid("key", list(self.key), "names a column twice (case is ignored); name each one once")
        for (one, first), (other, second) in combinations(self._tables.items(), 2):
            if first == second:
                raise invalid(other, second, f"{one} and {other} are the same table; name different ones")
            for inner, outer, what in (
                (second, first, f"{other} lies inside {one}"),
                (first, second, f"{one} lies inside {other}"),
            ):
                if inner.startswith(outer + "/"):
                    raise invalid(other, second, what)

    def _check_proof(self) -> None:
        if self.proof is ProofKind.INCREMENTAL and self.strategy != AUTO and not registered(self.strategy).adds_up:
            able = [name for name in names() if registered(name).adds_up]
            raise invalid(
                "proof",
                self.proof.value,
                f"strategy {self.strategy} reads rows of different epochs, so the source's digest cannot be added up; "
                f"use strategy {' or '.join(able)}, or remove the option",
            )
        if self.proof is ProofKind.SAMPLED and (self.topic is not None or not self.key):
            raise invalid(
                "proof",
                self.proof.value,
                "compares ranges of the key with the source's at an epoch, so it needs a key and a table as source; "
                "use 'full'",
            )

    def with_strategy(self, name: str) -> BackfillSpec:
        """The spec with the strategy that the planner has chosen; InvalidSpec if its other options do not fit."""
        chosen = replace(self, strategy=name)
        chosen._check()
        return chosen

    @property
    def dead_letters(self) -> str | None:
        """The location of the table of a topic's undecodable records; None if it names none."""
        return self.topic.decoding.dead_letters if self.topic is not None else None

    @property
    def topic_name(self) -> str | None:
        """The name of the topic; None if the source is a table only."""
        return self.topic.name if self.topic is not None else None

    @property
    def _tables(self) -> dict[str, str]:
        """The location of each table of the build, by its role."""
        found = {"source": self.source, "target": self.target, "dead_letters": self.dead_letters}
        return {name: normal(place) for name, place in found.items() if place is not None}

    @property
    def table(self) -> str:
        """The location of the source. A topic without a landing table has none."""
        assert self.source is not None
        return self.source

    def to_json(self) -> dict[str, Any]:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        document = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        document["proof"] = self.proof.value
        document["topic"] = None if self.topic is None else self.topic.to_json()
        # Plans of version 0.1 lack these fields, and their fingerprints must not change.
        later = {"functions": {}, "proof": ProofKind.FULL.value, "clustering": "none"}
        return {name: value for name, value in document.items() if name not in later or value != later[name]}

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.to_json())


def difference(planned: BackfillSpec, asked: BackfillSpec) -> dict[str, list[Any]]:
    """The options that differ, each with its planned and its requested value."""
    one, other = planned.to_json(), asked.to_json()
    names = {**one, **other}
    return {name: [one.get(name), other.get(name)] for name in names if one.get(name) != other.get(name)}


def _topic_alone(options: Mapping[str, Any]) -> bool:
    """Whether the source is a topic without a landing table."""
    return options.get("topic") is not None and options.get("source") is None


def _keyless(options: Mapping[str, Any]) -> bool:
    """Whether the spec has no key, and its strategy needs none."""
    strategy = options.get("strategy")
    return isinstance(strategy, str) and lets_keys_be_missing(strategy) and options.get("key") in (None, (), [])
