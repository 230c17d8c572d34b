"""The proof of a topic's build, also if Kafka has lost some of the history since it was read.

While all of it is there the comparison is the one of every build. Retention goes on while a history is read, and so
does compaction: of what is gone nothing can be compared any more. The rest is: each row that it asks for is in the
target. Without a key the target has as many rows as were written, so none is there twice; with one, no key is there
whose last record is a tombstone. What retention takes while it is read ends nothing: the proof is tried again without
it, and without what may be taken meanwhile.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import VerificationFailed
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.state.effect import VerifyTarget
from airflow_backfill.spark.kafka.expected_rows import TopicRows
from airflow_backfill.spark.kafka.last_values import last_per_key
from airflow_backfill.spark.session.failure import lost_history_named
from airflow_backfill.spark.target_table.net_change import DELETE, OP
from airflow_backfill.spark.transform.transform import quoted
from airflow_backfill.spark.verify.proof import Proof

log = logging.getLogger(__name__)

TRIES = 4
"""How often retention may take something of what a proof is reading."""


@dataclass(frozen=True)
class TopicProof:
    """Proves the target of ``proof`` to hold ``rows``."""

    proof: Proof
    rows: TopicRows

    def certificate(self, wanted: VerifyTarget, now: int) -> Certificate:
        """The certificate, which says how many records were gone, and how many passed over, or VerificationFailed."""
        one = self
        for _ in range(TRIES - 1):
            try:
                return one._certificate(wanted, now)
            except Exception as error:
                floors = one.rows.overtaken()
                if not floors:
                    raise
                log.warning("retention came before what was read (%s); once more, from %s on", error, floors)
                one = replace(one, rows=replace(one.rows, floors=floors))
        return one._certificate(wanted, now)

    def _certificate(self, wanted: VerifyTarget, now: int) -> Certificate:
        self.rows.check_covered(wanted.epoch)
        if not self.rows.trimmed:
            try:
                whole = replace(self.proof, history=self.rows.target)
                return self._counted(whole.certificate(wanted.epoch, wanted.target_version, now))
            except VerificationFailed:
                # Of a key the last value is enough, and compaction leaves that.
                if not (self.rows.short if self.proof.key else self.rows.gone)(wanted.epoch):
                    raise
        return self._counted(self._of_the_rest(wanted, now))

    def _counted(self, certificate: Certificate) -> Certificate:
        return replace(certificate, lost=self.rows.lost)

    def _of_the_rest(self, wanted: VerifyTarget, now: int) -> Certificate:
        key, rest, transform = self.proof.key, self.rows.rest(wanted.epoch), self.proof.transform
        if not key:
            written = self.rows.written(wanted.epoch) - wanted.no_rows
            return self._compared(wanted, now, transform.apply(rest), written, None)
        with lost_history_named(), last_per_key(rest, transform, key, self.rows.history.order) as net:
            deleted = net.frame.where(F.col(OP) == DELETE).select(*(F.col(quoted(name)) for name in key))
            return self._compared(wanted, now, net.rows(), None, deleted)

    def _compared(
        self, wanted: VerifyTarget, now: int, rows: DataFrame, written: int | None, deleted: DataFrame | None
    ) -> Certificate:
        proof, at = replace(self.proof, history=lambda _: rows), (wanted.epoch, wanted.target_version)
        return proof.certificate_of_part(*at, now, self.rows.gone(wanted.epoch), rows=written, deleted=deleted)
