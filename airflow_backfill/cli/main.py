"""``table-backfill``: shows builds, and sends them commands.

Exit status: 0 for success, 1 for an error or a "no", 2 for a wrong command line, 130 after Ctrl-C, 141 if nobody reads
the answer (docs/command_line.md).
"""
# PYTHON_ARGCOMPLETE_OK

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from airflow_backfill.builds.ordering import acknowledged, only_drops, ordered
from airflow_backfill.cli.answer import Answer
from airflow_backfill.cli.parser import parser
from airflow_backfill.cli.signing import signature
from airflow_backfill.cli.store import connection_named, reader, store_options
from airflow_backfill.cli.terminal import coloured
from airflow_backfill.core.errors import BackfillError, InvalidSpec
from airflow_backfill.core.reports.difference import keys_of
from airflow_backfill.core.reports.way_out import told
from airflow_backfill.core.source.identity import CLEAR
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.moment import moment
from airflow_backfill.core.values.options import invalid

MAX_WAIT_SECONDS = 10_000_000
INTERRUPTED, UNREAD = 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line. Returns the exit status; SystemExit with 2 for a wrong command line."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may lack a character of a name
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(argv)
    except BrokenPipeError:  # as after "| head"; Python writes what is left when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD


def _run(argv: Sequence[str] | None) -> int:
    arguments = parser()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(arguments)
    try:
        options = arguments.parse_args(argv)
    except InvalidSpec as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    try:
        answer = _ANSWERS.get(options.command, _order)(options)
    except BackfillError as error:
        said = told(error)
        text = coloured("\n".join([str(error), *keys_of(error), said["way_out"]]), sys.stderr)
        print(json.dumps(said) if options.json else text, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    if answer is not None:
        print(json.dumps(answer.document) if options.json else coloured(answer.text, sys.stdout), flush=True)
    return 0 if answer is None or answer.good else 1


def _status(options: argparse.Namespace) -> Answer | None:
    # Imported here, as below: other commands do not need these modules.
    from airflow_backfill.builds.accuracy import accuracy
    from airflow_backfill.builds.status import PLANNING, as_text, status
    from airflow_backfill.cli.watch import watch
    from airflow_backfill.core.reports.accuracy import described

    if options.watch is not None:
        watch(lambda: status(reader(options)), options.watch, sys.stdout, as_json=options.json)
        return None
    found = status(reader(options))
    if found["phase"] == PLANNING:
        return Answer(found, as_text(found))
    predicted = accuracy(reader(options))
    line = [] if predicted is None else [f"  predicted {described(predicted)}"]
    return Answer({**found, "prediction": predicted}, "\n".join([as_text(found), *line]))


def _list(options: argparse.Namespace) -> Answer:
    from airflow_backfill.cli.listing import listing

    return listing(options.folder, store_options(options.conn_id))


def _answer(options: argparse.Namespace) -> Answer:
    conn_id: str = options.airflow_conn_id
    with connection_named("--airflow-conn-id", conn_id):
        from airflow_backfill.hooks.airflow_api import AirflowApiHook

        hook = AirflowApiHook(conn_id)
    found = hook.answer(options.target, options.command, options.why)
    before = "already had" if found["again"] else "has"
    return Answer(found, f"task {found['task']} {before} your answer: {options.command}")


def _clean(options: argparse.Namespace) -> Answer:
    from airflow_backfill.builds.cleaning import clean

    found = clean(reader(options), options.days)
    text = f"removed {found['proof_parts']} parts of proofs, {found['explanations']} explanations, and the details of "
    text += f"{found['errors']} errors"
    return Answer(found, text)


def _recover(options: argparse.Namespace) -> Answer:
    from airflow_backfill.cli.submit import recover

    found = recover(options)
    if options.epoch is None:
        return Answer(found, f"the build goes on in its {found['phase']} phase; clear the task that failed")
    return Answer(found, f"the build goes on from epoch {found['epoch']}; to prove its rows, {CLEAR}")


def _prove(options: argparse.Namespace) -> Answer:
    from airflow_backfill.cli.submit import prove

    found = prove(options)
    where = f"equal at epoch {found['epoch']}: {found['rows']} rows in version {found['target_version']}"
    return Answer(found, where)


def _explain(options: argparse.Namespace) -> Answer:
    from airflow_backfill.cli.submit import explain
    from airflow_backfill.core.reports.explained import as_text
    from airflow_backfill.core.reports.explained_row import DIFFERS

    found = explain(options)
    return Answer(found, as_text(found), found["verdict"] != DIFFERS)


def _plan(options: argparse.Namespace) -> Answer:
    from airflow_backfill.cli.plan import dry_run, plan

    return dry_run(options) if options.explain else plan(options)


def _repair(options: argparse.Namespace) -> Answer:
    from airflow_backfill.cli.submit import repair

    found = repair(options)
    return Answer(found, f"the target was repaired at epoch {found['epoch']}; to prove its rows, {CLEAR}")


def _cancel(options: argparse.Namespace) -> Answer:
    try:
        answer = _order(options)
    except BackfillError as error:
        if not (options.drop and not options.no_submit and only_drops(reader(options), error)):
            raise
        answer = Answer({"command": "cancel", "number": None}, f"the build cannot be read: {error}")
    if options.no_submit:
        return answer
    from airflow_backfill.cli.submit import cancel

    outcome = cancel(options)
    dropped = ", ".join(outcome.get("dropped", ())) or "nothing"
    return Answer({**answer.document, **outcome}, f"{answer.text}\nthe build is cancelled; dropped: {dropped}")


def _order(options: argparse.Namespace) -> Answer:
    wait = getattr(options, "wait", None)
    if wait is not None and not 0 <= wait <= MAX_WAIT_SECONDS:
        raise invalid("--wait", wait, f"must be between 0 and {MAX_WAIT_SECONDS} seconds")
    number = ordered(reader(options), _command(options))
    result = {"command": options.command, "number": number}
    text = f"{options.command} is command {number}; the next barrier acknowledges it"
    if wait is None:
        return Answer(result, text)
    known = acknowledged(reader(options), number, wait)
    said = "acknowledged" if known else f"not acknowledged within {wait:g} s: is a task of the build running?"
    return Answer({**result, "acknowledged": known}, f"{text}\n{said}", known)


def _command(options: argparse.Namespace) -> Command:
    verb, signed = Verb(options.command), signature(options)
    if verb is Verb.CANCEL:
        return Command(verb, drop=options.drop, signed=signed)
    if verb is not Verb.THROTTLE:
        return Command(verb, signed=signed)
    until = None if options.until is None else moment("--until", options.until)
    rate, byte_rate = _rate("rate", options.rate), _rate("bytes", options.bytes)
    return Command(verb, rate=rate, byte_rate=byte_rate, until=until, signed=signed)


def _rate(name: str, text: str) -> int | None:
    if text == "none":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise invalid(name, text, "must be a whole number per second, or 'none' for no limit")
    return int(text)


_ANSWERS: Mapping[str, Callable[[argparse.Namespace], Answer | None]] = {
    "list": _list,
    "status": _status,
    "approve": _answer,
    "reject": _answer,
    "cancel": _cancel,
    "clean": _clean,
    "plan": _plan,
    "prove": _prove,
    "explain": _explain,
    "recover": _recover,
    "repair": _repair,
}
"""What answers a command, or prints everything itself and answers None; the others only order something."""

if __name__ == "__main__":
    sys.exit(main())
