"""The proof of a topic's build, which also works if Kafka has lost a part of the history since it was read.

If the history is complete, the comparison is that of every build. Otherwise records deleted by retention or compaction
cannot be compared; the others are: the target must have all their rows. Without a key, it must also have as many rows
as were written, so no row is doubled. With a key, it must have no key whose last record is a tombstone. With ``order``,
a key is not compared if target or memory have a later record of it than Kafka. If retention deletes records while the
proof reads them, the proof starts again behind them, with a margin.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import VerificationFailed
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.splits.partitions import held
from airflow_backfill.core.state.effect import VerifyTarget
from airflow_backfill.ledger.control_folder import memory_beside
from airflow_backfill.spark.kafka.expected_rows import TopicRows
from airflow_backfill.spark.kafka.last_values import last_per_key, place_columns
from airflow_backfill.spark.kafka.tombstones import Tombstones
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.session.failure import coded, lost_history_named
from airflow_backfill.spark.target_table.net_change import DELETE, OP, NetChanges
from airflow_backfill.spark.transform.transform import quoted
from airflow_backfill.spark.verify.proof import Proof

log = logging.getLogger(__name__)

PROOF_TRIES = 4
"""How often a proof starts, if retention deletes records while it reads them."""


@dataclass(frozen=True)
class TopicProof:
    """Proves that the target of ``proof`` holds ``rows``."""

    proof: Proof
    rows: TopicRows

    def certificate(self, wanted: VerifyTarget, now: int) -> Certificate:
        """The certificate, with the numbers of records that were gone and that were skipped; or VerificationFailed."""
        one = self
        for _ in range(PROOF_TRIES - 1):
            try:
                return one._certificate(wanted, now)
            except Exception as error:
                floors = one.rows.overtaken()
                if not floors:
                    raise
                why = coded(error)
                log.warning("retention deleted records during the proof (%s); it starts again at %s", why, floors)
                one = replace(one, rows=replace(one.rows, floors=floors))
        return one._certificate(wanted, now)

    def _certificate(self, wanted: VerifyTarget, now: int) -> Certificate:
        self.rows.check_covered(wanted.epoch)
        if not self.rows.trimmed:
            try:
                whole = replace(self.proof, history=self.rows.target)
                return self._counted(whole.certificate(wanted.epoch, wanted.target_version, now))
            except VerificationFailed:
                if not self.rows.doubtful(wanted.epoch):
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
            known = self._known(net, wanted, key)
            deleted = known.frame.where(F.col(OP) == DELETE).select(*(F.col(quoted(name)) for name in key))
            return self._compared(wanted, now, known.rows(), None, deleted)

    def _known(self, net: NetChanges, wanted: VerifyTarget, key: Sequence[str]) -> NetChanges:
        """``net`` without keys whose last record is gone, because target or memory have a later one."""
        order, plan, spark = self.rows.history.order, self.proof.plan, self.proof.spark
        if order is None:
            return net
        place = place_columns(self.proof.transform, order)
        tombstones = Tombstones(spark, memory_beside(plan.spec.target, plan.build), key, place)
        target = open_source(spark, plan.spec.target).at(wanted.target_version)
        return tombstones.newest(net, held(wanted.positions), target)

    def _compared(
        self, wanted: VerifyTarget, now: int, rows: DataFrame, written: int | None, deleted: DataFrame | None
    ) -> Certificate:
        proof, at = replace(self.proof, history=lambda _: rows), (wanted.epoch, wanted.target_version)
        return proof.certificate_of_part(*at, now, self.rows.gone(wanted.epoch), rows=written, deleted=deleted)
