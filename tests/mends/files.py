"""Of what lies in the log and beside the target, and of what waits, steers and shows."""

from __future__ import annotations

from tests.mends.mend import Mend

GROWS = "tests/ledger/test_what_grows.py::"
FOLDER = "tests/ledger/test_service_folder.py::"

MENDS = (
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
        "        return known if of == build else {}",
        "        return known",
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
        "        return self._append(document, max(self.numbers(floor), default=floor) + 1)",
        "        return self._append(document, max(self.numbers(floor), default=0) + 1)",
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
        "an epoch of a held chain wakes nobody",
        "wake=unsealed or behind or unannounced(state, source) or",
        "wake=unsealed or behind or",
        ("tests/watching/test_gate_watch.py::test_an_epoch_that_a_held_chain_has_not_announced_wakes_spark",),
    ),
    Mend(
        "a request that has ended is taken once more",
        "        self._store.delete(_request(name))\n        self._store.delete(_taken(name))\n",
        "        self._store.delete(_taken(name))\n        self._store.delete(_request(name))\n",
        (FOLDER + "test_each_request_is_taken_once_whatever_happens_in_between",),
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
        (FOLDER + "test_each_request_is_taken_once_whatever_happens_in_between",),
    ),
    Mend(
        "an attempt that was announced lives for ever",
        "Life.RUNNING if silent <= patience and unchanged <= UNCHANGED_MS else Life.SILENT",
        "Life.RUNNING",
        ("tests/builds/test_attempts.py::test_a_dead_attempt_does_not_look_like_a_running_one",),
    ),
    Mend(
        "rows are dropped without a reason",
        "    if destroys and signed.why is None:",
        "    if False:",
        ("tests/operators/test_orders.py::test_nothing_is_destroyed_without_a_reason",),
    ),
    Mend(
        "a task that is retried gives its command twice",
        "number = ordered(reader, command, once=True)",
        "number = ordered(reader, command)",
        ("tests/operators/test_command.py::test_a_task_that_is_retried_or_cleared_sends_no_second_command",),
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
)
