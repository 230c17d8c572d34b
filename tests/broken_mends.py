"""Edits of the package, each of which brings back what once lost rows, or hours: mostly of what no simulation runs."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutation import Edit


@dataclass(frozen=True)
class Mend(Edit):
    """``tests``: those that have to notice, each of them."""

    tests: tuple[str, ...] = ()


KEYS = "tests/spark/target_table/test_repeated_keys.py::"
TROUBLES = "tests/spark/kafka/test_topic_troubles.py::"
LOST = "tests/spark/kafka/test_lost_records.py::"
LANDING = "tests/spark/kafka/test_wrong_landing.py::"
AS_WRITTEN = "tests/spark/transform/test_text_as_written.py::"
FAILURE = "tests/spark/session/test_failure.py::"
GROWS = "tests/ledger/test_what_grows.py::"
FOLDER = "tests/ledger/test_service_folder.py::"
PROOF = "tests/spark/kafka/test_topic_proof.py::"

MENDS = (
    Mend(
        "rows are appended without a look whether the target has their keys",
        "        return bool(net.repeated or (net.only_inserts and net.new and self._met(net).limit(1).collect()))",
        "        return bool(net.repeated)",
        (KEYS + "test_rows_that_are_added_with_keys_that_are_there",),
    ),
    Mend(
        "a MERGE changes the row of a key that is added",
        "set={**values, first: guard}",
        "set=values",
        (KEYS + "test_rows_that_are_added_with_keys_that_are_there",),
    ),
    Mend(
        "a MERGE deletes the row of a key that is added and deleted",
        ' & ~_of("s", NEW)).when',
        ").when",
        (KEYS + "test_rows_that_are_added_with_keys_that_are_there",),
    ),
    Mend(
        "several rows of a key are taken as the source has them",
        "                self._check(rows, net, epoch)\n",
        "",
        (
            KEYS + "test_rows_that_are_added_with_keys_that_are_there",
            KEYS + "test_the_log_phase_goes_on_when_the_older_row_is_deleted",
        ),
    ),
    Mend(
        "a repair writes both rows of a key",
        "        _check_keys(",
        "        (lambda *_: None)(",
        (KEYS + "test_a_key_twice_in_an_epoch_that_is_applied_in_part_has_a_way_out",),
    ),
    Mend(
        "every commit of the source is the same one",
        "        return self._hash.hexdigest()[:32]",
        '        return "0" * 32',
        (
            "tests/spark/delta/test_source_history.py::test_a_source_that_is_put_back_from_a_backup_is_not_followed_and_can_be_kept",
        ),
    ),
    Mend(
        "deletions are not remembered",
        "        if net.deletes:\n            self._keep(",
        "        if False:\n            self._keep(",
        ("tests/spark/kafka/test_ordered_topic.py::test_what_was_deleted_stays_deleted_after_the_hand_off",),
    ),
    Mend(
        "a deletion counts before the target holds its record",
        "        counting = known.where(_counts(held))",
        "        counting = known",
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
        "variables in a text are replaced",
        '    spark.conf.set(_SUBSTITUTION, "false")',
        "    pass",
        (AS_WRITTEN + "test_keys_partitions_and_expressions_of_a_build",),
    ),
    Mend(
        "a key may come in any partition",
        "                    KeyPartitions(self.spark, memory, key).check(net)",
        "                    pass",
        (TROUBLES + "test_a_key_that_comes_in_another_partition_stops_the_build_before_a_row_is_wrong",),
    ),
    Mend(
        "a log that was put back is taken for the known one",
        "if listing is None or self.known not in listing.commits:",
        "if listing is None:",
        (GROWS + "test_a_log_that_is_shorter_or_another_one_is_read_anew",),
    ),
    Mend(
        "protocol and metadata are those of another commit of the version",
        "if self._newest is None or mark is None or (self._newest.version, self._newest.mark) != (head, mark):",
        "if self._newest is None or self._newest.version != head:",
        (GROWS + "test_a_log_that_is_shorter_or_another_one_is_read_anew",),
    ),
    Mend(
        "an attempt without an outcome is forgotten",
        "if old > 0 and self._attempts.read_beside(old, OUTCOME) is not None:",
        "if old > 0:",
        (GROWS + "test_old_attempts_are_forgotten_and_no_number_is_given_twice",),
    ),
    Mend(
        "the commands of a build that was dropped are those of the next",
        "documents = self._commands.after(0, known if of == build else {})",
        "documents = self._commands.after(0, known)",
        (GROWS + "test_the_commands_of_another_build_are_read_although_their_numbers_are_known",),
    ),
    Mend(
        "an epoch that stops the build is looked for once only",
        "            for epoch in self._read(max(after, self._looked), source.head):",
        "            for epoch in self._read(max(after, self._looked), source.head) if self._looked < 0 else ():",
        (GROWS + "test_each_epoch_is_looked_through_once_for_one_that_stops_the_build",),
    ),
    Mend(
        "a gate does not look at the epochs that came after the newest record",
        "return self._source(state).stopped(source, state.reached if upto is None else upto)",
        "return source",
        ("tests/watching/test_gate_watch.py::test_an_epoch_that_stops_the_build_is_seen_before_a_barrier_is",),
    ),
    Mend(
        "an error of a later commit ends the reading of an earlier one",
        "        except BackfillError:\n            pass  # whoever asks for that version gets the error",
        "        finally:\n            pass",
        (GROWS + "test_reading_ahead_brings_no_error_forward",),
    ),
    Mend(
        "numbers begin anew where the folder is lost",
        "        number = max(self.numbers(floor), default=floor) + 1",
        "        number = max(self.numbers(floor), default=0) + 1",
        (
            "tests/ledger/test_control_folder.py::test_after_a_lost_folder_numbers_go_on_and_old_outcomes_belong_to_nobody",
            "tests/ledger/test_control_folder.py::test_after_a_lost_folder_commands_go_on_above_the_last_that_was_acknowledged",
        ),
    ),
    Mend(
        "a large record stays in its commit",
        "MAX_RECORD_BYTES = 1 << 18",
        "MAX_RECORD_BYTES = 1 << 30",
        ("tests/ledger/test_enclosures.py::test_ten_thousand_partitions_fit",),
    ),
    Mend(
        "a record that was altered is believed",
        "        return data.decode() if hashlib.sha256(data).hexdigest() == digest else None",
        "        return data.decode()",
        (
            "tests/ledger/test_enclosures.py::test_a_record_that_is_lost_or_altered_is_named_and_a_recovery_lives_it_down",
        ),
    ),
    Mend(
        "parts of a proof belong to one version",
        "        name = fingerprint([self.plan.fingerprint, side.name, content, BUCKETS, self.row_hash.value])",
        "        name = fingerprint([self.plan.fingerprint, side.name, content, BUCKETS, side.version])",
        ("tests/spark/verify/test_proof.py::test_an_attempt_goes_on_with_the_parts_that_are_left",),
    ),
    Mend(
        "parts of a proof are told apart by paths alone",
        "        content = [[file.path, file.size, file.deleted] for file in files]",
        "        content = [[file.path, file.size] for file in files]",
        ("tests/spark/verify/test_proof.py::test_a_file_of_which_other_rows_are_deleted_is_another_part",),
    ),
    Mend(
        "a row that goes counts as one that comes",
        "(found if group[CHANGE_TYPE] in COMES else -found)",
        "found",
        ("tests/spark/verify/test_source_digests.py::test_nothing_of_the_source_is_read_again",),
    ),
    Mend(
        "a row that the filter drops counts",
        "    return [F.when(passes, one).alias(name) for one, name in zip(hashes, HASHES, strict=True)]",
        "    return [one.alias(name) for one, name in zip(hashes, HASHES, strict=True)]",
        ("tests/spark/verify/test_source_digests.py::test_nothing_of_the_source_is_read_again",),
    ),
    Mend(
        "pieces of the source may overlap",
        " and all(free[span.start : span.stop]) for span in spans",
        " for span in spans",
        ("tests/core/values/test_piece.py::test_chosen_and_missing_pieces_are_the_whole_once",),
    ),
    Mend(
        "an epoch is complete with one of its buckets",
        "for (_, of), buckets in parted.items() if len(buckets) == of]",
        "for (_, of), buckets in parted.items()]",
        ("tests/core/values/test_piece.py::test_chosen_and_missing_pieces_are_the_whole_once",),
    ),
    Mend(
        "an epoch of a held chain wakes nobody",
        "wake=behind or unannounced(state, source) or",
        "wake=behind or",
        ("tests/watching/test_gate_watch.py::test_an_epoch_that_a_held_chain_has_not_announced_wakes_spark",),
    ),
    Mend(
        "a pause waits for the end of the round",
        'are cancelled", unit.stopped)\n                context.cancelJobsWithTag(tag)',
        'are cancelled", unit.stopped)',
        ("tests/spark/session/test_interrupting.py::test_a_pause_inside_a_round_is_acknowledged_and_no_row_is_there",),
    ),
    Mend(
        "what would fail again is tried again",
        "        for kind, holds, way_out in _FATAL:",
        "        for kind, holds, way_out in ():",
        (
            FAILURE + "test_an_expression_that_cannot_take_a_row_fails_for_good_and_a_mended_one_goes_on",
            FAILURE + "test_a_constraint_of_the_target_stops_its_follower_for_good_and_without_it_the_task_goes_on",
        ),
    ),
    Mend(
        "a file that is cut short is tried again",
        "history_lost, _damaged, incomplete, _no_python)",
        "history_lost, incomplete, _no_python)",
        (FAILURE + "test_a_file_that_is_cut_short_fails_for_good_and_once_restored_the_task_goes_on",),
    ),
    Mend(
        "a version that the log does not reach any more is tried again",
        "        if trouble.condition in _CLEANED_UP:",
        "        if False:",
        (FAILURE + "test_a_version_that_the_log_does_not_reach_any_more_is_history_lost",),
    ),
    Mend(
        "what the user set is set again",
        "for name, value in ours.items() if name not in given} | added",
        "for name, value in ours.items()} | added",
        ("tests/spark/session/test_settings.py::test_what_was_given_wins_and_extensions_are_added_to",),
    ),
    Mend(
        "a setting that changes what an expression means is taken from the user",
        "            if told.lower() != value.lower():",
        "            if False:",
        ("tests/spark/session/test_settings.py::test_a_setting_that_was_given_and_differs_from_the_plan_is_refused",),
    ),
    Mend(
        "a restart leaves a damaged build as it is",
        '            log.warning("the build cannot be cancelled first; it is dropped anyway: %s", error)',
        "            raise",
        ("tests/spark/run/test_planner.py::test_restart_drops_the_table_and_plans_anew",),
    ),
    Mend(
        "what is skipped is what the plan says, and nobody else",
        "        skips = topic.skips or self.observed.control.skips",
        "        skips = topic.skips",
        tests=(
            "tests/core/strategies/test_source.py::"
            "test_what_is_lost_while_a_history_is_read_is_passed_over_once_that_is_ordered",
            LOST + "test_history_that_is_lost_while_it_is_read_is_passed_over_once_that_is_ordered",
        ),
    ),
    Mend(
        "without a landing table a build waits for what lands",
        "    return settled_alone(asked(split, ours, expiry))",
        "    return asked(split, ours, expiry)",
        tests=("tests/core/kafka/test_worlds.py::test_history_and_then_a_stream_without_a_landing_table",),
    ),
    Mend(
        "without a landing table what the stream begins with counts as lost",
        "    ours = log if split.target is None else Log(min(log.start, split.target + 1), log.end)",
        "    ours = log",
        tests=(
            "tests/core/kafka/test_worlds.py::test_history_and_then_a_stream_without_a_landing_table",
            LOST + "test_of_a_topic_alone_nothing_is_lost_that_its_stream_begins_with",
        ),
    ),
    Mend(
        "last values that nobody can compare fail the proof",
        "                if not (self.rows.short if self.proof.key else self.rows.gone)(wanted.epoch):",
        "                if self.proof.key or not self.rows.gone(wanted.epoch):",
        (PROOF + "test_last_values_of_which_nobody_has_the_records_are_proven_without_them_and_not_repaired",),
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
        tests=(
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
    Mend(
        "a round takes any number of epochs",
        "    for epoch in epochs[: size.epochs]:",
        "    for epoch in epochs:",
        tests=("tests/core/strategies/test_log.py::test_a_round_is_bounded_in_epochs_in_file_actions_and_in_cuts",),
    ),
    Mend(
        "a round takes any number of file actions and cuts",
        " and files <= self.files and cuts <= self.cuts",
        "",
        tests=("tests/core/strategies/test_log.py::test_a_round_is_bounded_in_epochs_in_file_actions_and_in_cuts",),
    ),
    Mend(
        "a commit changes every row of the files that it touches",
        "    if told is None:",
        "    if True:",
        tests=(
            "tests/core/source/test_view.py::test_a_commit_changes_what_it_says_and_not_every_row_of_the_files_it_touches",
        ),
    ),
    Mend(
        "a change weighs what its files do",
        "    return min(size, -(-size * rows // of)) if of else size",
        "    return size",
        tests=(
            "tests/core/source/test_view.py::test_a_change_weighs_what_its_rows_take_and_not_the_files_that_are_read_for_it",
        ),
    ),
    Mend(
        "a record is written that nobody can read",
        "        if encode(decode(written).to_json()) != written:\n",
        "        if False:\n",
        tests=("tests/core/attempts/test_attempt_lanes.py::test_a_record_that_nobody_could_read_is_not_committed",),
    ),
    Mend(
        "a recovery counts from nothing",
        "        base=left.totals,",
        "        base=type(left.totals)(),",
        tests=("tests/core/attempts/test_recovery.py::test_what_was_counted_and_what_was_ordered_outlive_a_recovery",),
    ),
    Mend(
        "a retention of nothing is Delta's default",
        "    return max(sum(int(n) * _UNITS[unit] for n, unit in terms), 0)",
        "    return max(sum(int(n) * _UNITS[unit] for n, unit in terms), 0) or None",
        tests=("tests/core/values/test_retention.py::test_intervals",),
    ),
    Mend(
        "an executor that ends ends the attempt",
        "_PASSING = (SourceUnavailable, ExecutorLost)",
        "_PASSING = (SourceUnavailable,)",
        tests=(
            "tests/core/attempts/test_attempt.py::test_a_round_whose_executor_ended_is_repeated_by_the_same_attempt",
        ),
    ),
    Mend(
        "a request that has ended is taken once more",
        "        self._store.delete(_request(name))\n        self._store.delete(_taken(name))\n",
        "        self._store.delete(_taken(name))\n        self._store.delete(_request(name))\n",
        tests=(FOLDER + "test_each_request_is_taken_once_whatever_happens_in_between",),
    ),
    Mend(
        "a request is read before it is taken",
        '        created = self._store.create(_taken(name), json.dumps({"service": service}).encode())\n'
        "        # After a lost answer the file may be this service's own.\n"
        "        if not created and self.taken_by(name) != service:\n"
        "            return None\n"
        "        # Read only now: before, another service may have ended it and removed both files.\n"
        "        found = self._read(_request(name))\n",
        "        found = self._read(_request(name))\n"
        '        created = self._store.create(_taken(name), json.dumps({"service": service}).encode())\n'
        "        if not created and self.taken_by(name) != service:\n"
        "            return None\n",
        tests=(FOLDER + "test_each_request_is_taken_once_whatever_happens_in_between",),
    ),
    Mend(
        "the first request that ends gives up the lock of all requests of its target",
        "        if not held.holders:",
        "        if True:",
        ("tests/spark/session/test_lock.py::test_threads_hold_it_together_until_the_last_lets_go",),
    ),
    Mend(
        "of two fields of one name the last one counts",
        "    if len(found) < len(pairs):",
        "    if False:",
        tests=("tests/core/model/test_spec.py::test_a_text_that_is_no_spec_is_refused",),
    ),
    Mend(
        "progress is what is measured now",
        "    return max(progress(state), _measured(",
        "    return max(0, _measured(",
        tests=("tests/core/reports/test_progress.py::test_progress_never_falls_and_never_passes_the_whole",),
    ),
    Mend(
        "a recovery forgets the progress",
        "        progress=max([CATCH_UP[1], *(barrier.record.progress or 0 for barrier in left.lanes)]),",
        "        progress=CATCH_UP[1],",
        tests=("tests/core/reports/test_progress.py::test_a_recovery_takes_nothing_back",),
    ),
    Mend(
        "an attempt that was announced lives for ever",
        "Life.RUNNING if now - seen <= SILENT_MS and unchanged <= UNCHANGED_MS else Life.SILENT",
        "Life.RUNNING",
        tests=("tests/builds/test_attempts.py::test_a_dead_attempt_does_not_look_like_a_running_one",),
    ),
    Mend(
        "rows are dropped without a reason",
        "    if destroys and signed.why is None:",
        "    if False:",
        tests=("tests/operators/test_orders.py::test_nothing_is_destroyed_without_a_reason",),
    ),
    Mend(
        "a task that is retried gives its command twice",
        "number = ordered(reader, command, once=True)",
        "number = ordered(reader, command)",
        tests=("tests/operators/test_command.py::test_a_task_that_is_retried_or_cleared_sends_no_second_command",),
    ),
    Mend(
        "a throttle that has ended holds writers off",
        "    control = obey(state.control, commands).at(now)\n    applied",
        "    control = obey(state.control, commands)\n    applied",
        tests=("tests/core/gates/test_admission.py::test_a_build_whose_throttle_has_ended_asks_its_writers_again",),
    ),
    Mend(
        "a damaged attempt hides its build",
        "        except (DocumentDamaged, NotFound) as error:",
        "        except NotFound as error:",
        ("tests/builds/test_damage.py::test_a_damaged_file_hides_only_what_it_tells",),
    ),
    Mend(
        "a damaged heartbeat hides whose it is",
        "    try:\n        return read(me), None\n    except DocumentDamaged as error:\n        return None, error",
        "    return read(me), None",
        ("tests/builds/test_attempts.py::test_a_damaged_heartbeat_hides_nothing_else_of_its_attempt",),
    ),
    Mend(
        "a document is believed whatever its fields are",
        "        if value is not None and type(value) is not kind:",
        "        if False:",
        ("tests/builds/test_damage.py::test_a_damaged_file_hides_only_what_it_tells",),
    ),
    Mend(
        "what a listing lacks is asked for",
        "        return place == len(known) or known[place] != file",
        "        return False",
        ("tests/ledger/test_fetching_store.py::test_what_a_listing_lacks_is_not_asked_for",),
    ),
    Mend(
        "a damaged attempt is taken for one of the DAG that names it",
        "            damage = error\n        else:\n            return document is not None",
        "            return True\n        else:\n            return document is not None",
        ("tests/plugin/test_api.py::test_nothing_is_shown_if_no_readable_attempt_says_whose_build_it_is",),
    ),
    Mend(
        "whoever may look sees values of rows in an explanation",
        'COMMANDS = Depends(requires_access_dag("PUT", ',
        'COMMANDS = Depends(requires_access_dag("GET", ',
        ("tests/plugin/test_api.py::test_why_a_row_is_as_it_is_shows_to_those_who_may_command",),
    ),
    Mend(
        "an explanation shows what the build's applications hide",
        "    if any(map(shows_no_values, shell.reader.control.settings())):",
        "    if False:",
        (
            "tests/spark/explain/test_explanation.py::test_one_that_an_attempt_asks_for_lies_beside_the_target_and_nowhere_else",
        ),
    ),
    Mend(
        "the hours of a clock that was ahead are waited for",
        "        if written is None or written.at <= observed.now:",
        "        if True:",
        ("tests/core/attempts/test_throttle.py::test_the_hours_of_a_clock_that_was_ahead_are_not_waited_for",),
    ),
    Mend(
        "a target that is partitioned is taken for a clustered one",
        "    if not DeltaVersion(spark, spec.target, version).clustered:",
        "    if False:",
        ("tests/spark/target_table/test_clustering.py::test_a_target_that_exists_and_is_not_clustered_is_refused",),
    ),
    Mend(
        "an application waits for ever for executors",
        "        return now - self._since >= PATIENCE_SECONDS",
        "        return False",
        ("tests/spark/run/test_executors.py::test_executors_are_gone_for_good_if_a_job_waits_for_long",),
    ),
)
