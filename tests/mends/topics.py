"""Of builds of a topic."""

from __future__ import annotations

from tests.mends.mend import Mend

TROUBLES = "tests/spark/kafka/test_topic_troubles.py::"
LOST = "tests/spark/kafka/test_lost_records.py::"
LANDING = "tests/spark/kafka/test_wrong_landing.py::"
PROOF = "tests/spark/kafka/test_topic_proof.py::"

MENDS = (
    Mend(
        "deletions are not remembered",
        "        if net.deletes:\n            self._keep(",
        "        if False:\n            self._keep(",
        ("tests/spark/kafka/test_ordered_topic.py::test_what_was_deleted_stays_deleted_after_the_hand_off",),
    ),
    Mend(
        "a deletion counts before the target holds its record",
        "        return self._without_older(net, known.where(_counts(held)))",
        "        return self._without_older(net, known)",
        ("tests/spark/kafka/test_tombstones.py::test_a_deletion_counts_once_the_target_holds_its_record",),
    ),
    Mend(
        "what only the landing table still has is not looked for",
        '        return {row["partition"]: Batch(row["least"], row["greatest"], row["count"]) for row in found}',
        "        return {}",
        (LOST + "test_what_only_the_landing_table_still_has_is_history_too",),
    ),
    Mend(
        "a repeat is dropped without a look at its first copy",
        "        if repeated:\n            self._check_repeated(",
        "        if False:\n            self._check_repeated(",
        (
            LANDING + "test_a_topic_that_is_created_again_after_the_finish_is_not_followed",
            LANDING + "test_a_landing_that_repeats_itself_is_counted_and_one_out_of_order_is_refused",
        ),
    ),
    Mend(
        "what landed is taken for committed",
        "        if strange:\n            raise",
        "        if False:\n            raise",
        (LANDING + "test_aborted_records_that_have_landed_are_refused_by_name",),
    ),
    Mend(
        "a tombstone that is compacted away is dropped",
        "        if not spans:\n            return None\n",
        "        return None\n",
        (PROOF + "test_a_tombstone_that_is_compacted_away_before_its_round_is_taken_from_the_landing_table",),
    ),
    Mend(
        "a key may come in any partition",
        "                    KeyPartitions(self.spark, memory, key).check(net)",
        "                    pass",
        (TROUBLES + "test_a_key_that_comes_in_another_partition_stops_the_build_before_a_row_is_wrong",),
    ),
    Mend(
        "what is skipped is what the plan says, and nobody else",
        "        skips = topic.skips or self.observed.control.skips",
        "        skips = topic.skips",
        (
            "tests/core/strategies/test_retention.py::"
            "test_what_is_lost_while_a_history_is_read_is_passed_over_once_that_is_ordered",
            LOST + "test_history_that_is_lost_while_it_is_read_is_passed_over_once_that_is_ordered",
        ),
    ),
    Mend(
        "undecodable records go to a table beside the target once that is ordered",
        "        if location is None and beside:",
        "        if False:",
        (TROUBLES + "test_an_undecodable_record_stops_a_build_until_such_records_may_be_put_aside",),
    ),
    Mend(
        "without a landing table a build waits for what lands",
        "    return settled_alone(asked(split, ours, expiry))",
        "    return asked(split, ours, expiry)",
        ("tests/core/kafka/test_alone.py::test_history_and_then_a_stream_without_a_landing_table",),
    ),
    Mend(
        "without a landing table what the stream begins with counts as lost",
        "    ours = log if split.target is None else Log(min(log.start, split.target + 1), log.end)",
        "    ours = log",
        (
            "tests/core/kafka/test_alone.py::test_history_and_then_a_stream_without_a_landing_table",
            LOST + "test_of_a_topic_alone_nothing_is_lost_that_its_stream_begins_with",
        ),
    ),
    Mend(
        "last values that nobody can compare fail the proof",
        "        if self.history.plan.spec.key and self.short(epoch):\n            return True",
        "        if self.history.plan.spec.key and self.short(epoch):\n            return False",
        (PROOF + "test_last_values_of_which_nobody_has_the_records_are_proven_without_them_and_not_repaired",),
    ),
    Mend(
        "compaction keeps the last record of every key",
        "            not self.history.plan.spec.key or self.history.order is not None or self._undecodable(epoch)",
        "            not self.history.plan.spec.key",
        (
            PROOF + "test_a_row_stands_if_the_last_record_of_its_key_is_gone",
            PROOF + "test_a_row_stands_if_only_an_undecodable_record_of_its_key_is_left",
        ),
    ),
    Mend(
        "a row that is later than what is left fails the proof",
        "            known = self._known(net, wanted, key)",
        "            known = net",
        (PROOF + "test_a_row_stands_if_the_last_record_of_its_key_is_gone",),
    ),
    Mend(
        "a stream that writes to the target is another writer",
        "proven=False, check=check_table)",
        "proven=False)",
        (
            "tests/core/state/test_load.py::test_a_target_that_a_query_writes_on_is_read_unless_it_is_another_one",
            "tests/spark/kafka/test_topic_build.py::test_a_topic_alone_is_read_to_its_pinned_end_and_a_stream_goes_on",
        ),
    ),
    Mend(
        "of two writers of dead letters one fails",
        "            if not left or conflict_of(error) is None:",
        "            if True:",
        ("tests/spark/kafka/test_dead_letters.py::test_lanes_and_builds_add_to_one_table_at_the_same_time",),
    ),
    Mend(
        "landed rows without a place are no rows",
        "        if count:\n            raise LandingInvalid(",
        "        if False:\n            raise LandingInvalid(",
        (LANDING + "test_rows_without_a_place_are_refused",),
    ),
    Mend(
        "records of a former topic are history",
        "        both.check_same(landing.within(common, epoch), common)",
        "",
        (LANDING + "test_records_of_a_former_topic_do_not_stand_in_for_expired_ones",),
    ),
    Mend(
        "a repair deletes what nobody can compare",
        "        expected = TopicRows(self._history, positions).whole",
        "        expected = TopicRows(self._history, positions).target",
        (PROOF + "test_last_values_of_which_nobody_has_the_records_are_proven_without_them_and_not_repaired",),
    ),
    Mend(
        "sealed while nobody has judged a partition",
        "            return _seal(state, observed) if state.sealable else Read(self.size)",
        "            return _seal(state, observed) if state.sealed else Read(self.size)",
        (
            "tests/core/strategies/test_source.py::"
            "test_the_history_lasts_until_somebody_has_judged_every_partition_that_was_named",
        ),
    ),
    Mend(
        "retention ends a proof",
        "                floors = one.rows.overtaken()",
        "                floors = {}",
        (PROOF + "test_retention_that_goes_on_while_a_proof_reads_does_not_end_it",),
    ),
)
