"""Of what Spark applications read, write and prove."""

from __future__ import annotations

from tests.mends.mend import Mend

KEYS = "tests/spark/target_table/test_repeated_keys.py::"
AS_WRITTEN = "tests/spark/transform/test_text_as_written.py::"
FAILURE = "tests/spark/session/test_failure.py::"

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
        "variables in a text are replaced",
        '"spark.sql.variable.substitute": "false"',
        '"spark.sql.variable.substitute": "true"',
        (AS_WRITTEN + "test_keys_partitions_and_expressions_of_a_build",),
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
        "        if trouble.condition in _CLEANED_UP or _NO_COMMIT in trouble.text:",
        "        if False:",
        (
            FAILURE + "test_a_version_that_the_log_does_not_reach_any_more_is_history_lost",
            FAILURE + "test_a_log_of_which_only_a_checkpoint_is_left_is_history_lost",
        ),
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
        "the first request that ends gives up the lock of all requests of its target",
        "        if not held.holders:",
        "        if True:",
        ("tests/spark/session/test_lock.py::test_threads_hold_it_together_until_the_last_lets_go",),
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
        "a target that is partitioned is taken for a clustered one",
        "    if not DeltaVersion(spark, spec.target, version).clustered:",
        "    if False:",
        ("tests/spark/target_table/test_clustering.py::test_a_target_that_exists_and_is_not_clustered_is_refused",),
    ),
    Mend(
        "an application waits for ever for executors",
        "        return now - self._since >= PATIENCE_SECONDS",
        "        return False",
        ("tests/spark/run/test_watchdog.py::test_executors_are_gone_for_good_if_a_job_waits_for_long",),
    ),
    Mend(
        "a service works for ever for a task that is gone",
        "        return now - running.signed >= UNWATCHED_SECONDS",
        "        return False",
        ("tests/spark/service/test_service.py::test_a_request_that_nobody_watches_any_more_is_withdrawn",),
    ),
    Mend(
        "an application starts on YARN if its connection is not found",
        '    connection("conn_id", start._conn_id)\n',
        "",
        ("tests/operators/test_application.py::test_without_its_connection_no_application_starts_elsewhere",),
    ),
    Mend(
        "a trigger rule of the DAG leads past a gate that was skipped",
        '        return {} if task == "plan" else {',
        "        return {} if task else {",
        ("tests/task_groups/test_backfill.py::test_a_skip_of_one_task_skips_all_after_it",),
    ),
)
