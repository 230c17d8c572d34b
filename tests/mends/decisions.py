"""Of what the core decides."""

from __future__ import annotations

from tests.mends.mend import Mend

CLOCKS = "tests/core/attempts/test_clocks.py::"

MENDS = (
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
        "a round takes any number of epochs",
        "    for epoch in epochs[: size.epochs]:",
        "    for epoch in epochs:",
        ("tests/core/strategies/test_log.py::test_a_round_is_bounded_in_epochs_in_file_actions_and_in_cuts",),
    ),
    Mend(
        "a round takes any number of file actions and cuts",
        " and files <= self.files and cuts <= self.cuts",
        "",
        ("tests/core/strategies/test_log.py::test_a_round_is_bounded_in_epochs_in_file_actions_and_in_cuts",),
    ),
    Mend(
        "a commit changes every row of the files that it touches",
        "    if told is None:",
        "    if True:",
        (
            "tests/core/source/test_view.py::test_a_commit_changes_what_it_says_and_not_every_row_of_the_files_it_touches",
        ),
    ),
    Mend(
        "a change weighs what its files do",
        "    return min(size, -(-size * rows // of)) if of else size",
        "    return size",
        (
            "tests/core/source/test_view.py::test_a_change_weighs_what_its_rows_take_and_not_the_files_that_are_read_for_it",
        ),
    ),
    Mend(
        "a record is written that nobody can read",
        "        if encode(decode(written).to_json()) != written:\n",
        "        if False:\n",
        ("tests/core/attempts/test_attempt_lanes.py::test_a_record_that_nobody_could_read_is_not_committed",),
    ),
    Mend(
        "a rewind believes in a RESTORE on top of which rows were written",
        "        if commit.data_change or commit.belied or commit.strays:\n            raise NotAllowedNow(",
        "        if False:\n            raise NotAllowedNow(",
        (
            "tests/core/attempts/test_rewind.py::test_a_round_that_lands_after_the_restore_is_noticed",
            "tests/core/attempts/test_rewind.py::test_without_the_rows_of_a_sound_version_nothing_is_written",
        ),
    ),
    Mend(
        "a rewind does not look at what has changed the table since the RESTORE",
        "    for commit in since:\n",
        "    for commit in ():\n",
        ("tests/core/attempts/test_rewind.py::test_without_the_rows_of_a_sound_version_nothing_is_written",),
    ),
    Mend(
        "a recovery counts from nothing",
        "source=source, base=left.totals)",
        "source=source, base=type(left.totals)())",
        ("tests/core/attempts/test_recovery.py::test_what_was_counted_and_what_was_ordered_outlive_a_recovery",),
    ),
    Mend(
        "a retention of nothing is Delta's default",
        "    return max(sum(int(n) * _UNITS[unit] for n, unit in terms), 0)",
        "    return max(sum(int(n) * _UNITS[unit] for n, unit in terms), 0) or None",
        ("tests/core/values/test_retention.py::test_intervals",),
    ),
    Mend(
        "an executor that ends ends the attempt",
        "_PASSING = (SourceUnavailable, ExecutorLost)",
        "_PASSING = (SourceUnavailable,)",
        ("tests/core/attempts/test_attempt.py::test_a_round_whose_executor_ended_is_repeated_by_the_same_attempt",),
    ),
    Mend(
        "of two fields of one name the last one counts",
        "    if len(found) < len(pairs):",
        "    if False:",
        ("tests/core/model/test_spec.py::test_a_text_that_is_no_spec_is_refused",),
    ),
    Mend(
        "progress is what is measured now",
        "    return max(progress(state), _measured(",
        "    return max(0, _measured(",
        ("tests/core/reports/test_progress.py::test_progress_never_falls_and_never_passes_the_whole",),
    ),
    Mend(
        "a recovery forgets the progress",
        "        progress=max(CATCH_UP[1], record.progress or 0),",
        "        progress=CATCH_UP[1],",
        ("tests/core/reports/test_progress.py::test_a_recovery_takes_nothing_back",),
    ),
    Mend(
        "a throttle that has ended holds writers off",
        "    control = obey(state.control, commands).at(now)\n    applied",
        "    control = obey(state.control, commands)\n    applied",
        ("tests/core/gates/test_admission.py::test_a_build_whose_throttle_has_ended_asks_its_writers_again",),
    ),
    Mend(
        "the hours of a clock that was ahead are waited for",
        "        if written is None or written.at <= observed.now:",
        "        if True:",
        ("tests/core/attempts/test_throttle.py::test_the_hours_of_a_clock_that_was_ahead_are_not_waited_for",),
    ),
    Mend(
        "a wait ends when the clock says so, however it was set",
        "        return max(min(self.until - now, self.until - self.now), 0)",
        "        return max(self.until - now, 0)",
        (CLOCKS + "test_no_wait_is_longer_because_the_clock_is_set_back_meanwhile",),
    ),
    Mend(
        "the age of an epoch is the difference of two clocks",
        "        return by_clocks if before is None else min(by_clocks, now - before)",
        "        return now - at",
        (
            CLOCKS + "test_the_gate_opens_whatever_clock_the_writers_have",
            "tests/core/strategies/test_source.py::"
            "test_a_landing_table_is_not_late_because_the_clock_of_the_driver_is_ahead",
        ),
    ),
    Mend(
        "the gate forgets what is announced after the newest record",
        "    upto = max(pending.head, *(commit.version for commit in state.stands))",
        "    upto = pending.head",
        (
            "tests/core/attempts/test_announcer.py::"
            "test_the_gate_takes_an_epoch_that_is_announced_after_the_newest_record_for_no_restored_source",
        ),
    ),
    Mend(
        "a record from the future is a sign of life",
        "    if news or not 0 <= observed.now - last.record.pending.at < HEARTBEAT_MS:",
        "    if news or observed.now - last.record.pending.at >= HEARTBEAT_MS:",
        (CLOCKS + "test_a_waiting_attempt_whose_clock_is_set_back_still_shows_that_it_lives",),
    ),
    Mend(
        "a driver whose clock is behind is taken for dead",
        "        silent = now - one.seen - one.behind\n",
        "        silent = now - one.seen\n",
        ("tests/core/reports/test_health.py::test_what_an_attempt_left_behind_says_whether_it_lives",),
    ),
)
