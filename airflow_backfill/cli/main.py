"""``table-backfill``: shows the status of a build, and sends it commands."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from airflow_backfill.builds.ordering import acknowledged, ordered, unreadable
from airflow_backfill.core.errors import BackfillError, InvalidSpec
from airflow_backfill.core.reports.way_out import way_out
from airflow_backfill.core.values.arguments import Arguments
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.core.values.signature import Signature

MAX_WAIT_SECONDS = 10_000_000
HELP = {
    "status": "show the progress of a build, and what it waits for",
    "pause": "interrupt the running round, and start no new one",
    "resume": "lift a pause",
    "hold": "keep the gate closed; the build still applies new epochs",
    "release": "lift a hold",
    "skip": "count records that Kafka has deleted, and go on without them",
    "throttle": "limit rows and bytes per second; 0 stops the build, 'none' lifts the limit",
    "cancel": "end the build; a new plan resumes it",
    "prove": "compare the target with its source now; the build goes on meanwhile, and nothing is written",
    "recover": "go on without the records in the log, from the epoch of the target's rows; then verify",
    "repair": "rewrite the keys that differ from the source; then verify again",
}


def parser() -> Arguments:
    arguments = Arguments(prog="table-backfill", description=__doc__)
    commands = arguments.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in HELP.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("target", help="location of the target table")
        command.add_argument("--json", action="store_true", help="print JSON")
        if name == "throttle":
            command.add_argument("rate", help="rows per second, or 'none' for no limit")
            command.add_argument("--bytes", default="none", help="bytes per second that the snapshot reads, or 'none'")
        if name == "cancel":
            command.add_argument(
                "--drop", action="store_true", help="also delete the target and the build's files beside it"
            )
            command.add_argument("--why", help="the reason, for the log of commands; needed with --drop")
            command.add_argument("--no-submit", action="store_true", help="only write the command, do not start Spark")
            _add_spark(command)
        elif name == "recover":
            command.add_argument("--epoch", type=int, required=True, help="the epoch of the target's rows")
            _add_spark(command)
        elif name == "prove":
            command.add_argument("--full", action="store_true", help="read the whole source, whatever the plan says")
            hashes = [by.value for by in RowHash]
            command.add_argument("--row-hash", default=hashes[0], choices=hashes, help="how to hash a row")
            _add_spark(command)
        elif name == "repair":
            _add_spark(command)
        elif name != "status":
            command.add_argument(
                "--wait", type=float, metavar="SECONDS", help="wait up to this time for a barrier to acknowledge it"
            )
    return arguments


def _add_spark(command: argparse.ArgumentParser) -> None:
    command.add_argument("--spark-submit", default="spark-submit", metavar="PATH", help="path of spark-submit")
    command.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a Spark setting; repeatable"
    )
    command.add_argument("--jars", help="jars, as for spark-submit")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 for success, 1 for a coded error or no acknowledgement in time, 2 for a wrong command line."""
    try:
        options = parser().parse_args(argv)
    except InvalidSpec as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    try:
        result, text = _perform(options)
    except BackfillError as error:
        said = {**error.to_json(), "way_out": way_out(error)}
        print(json.dumps(said) if options.json else f"{error}\n{said['way_out']}", file=sys.stderr)
        return 1
    print(json.dumps(result) if options.json else text)
    return 0 if result.get("acknowledged", True) else 1


def _perform(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    if options.command == "status":
        # Imported here: only status needs these modules.
        from airflow_backfill.builds.status import as_text, status

        found = status(options.target)
        return found, as_text(found)
    if options.command == "recover":
        from airflow_backfill.cli.submit import recover

        found = recover(options)
        return found, f"the build goes on from epoch {found['epoch']}; clear the verify task to prove its rows"
    if options.command == "prove":
        from airflow_backfill.cli.submit import prove

        found = prove(options)
        return found, f"equal at epoch {found['epoch']}: {found['rows']} rows in version {found['target_version']}"
    if options.command == "repair":
        from airflow_backfill.cli.submit import repair

        found = repair(options)
        return found, f"the target was repaired at epoch {found['epoch']}; clear the verify task to prove its rows"
    if getattr(options, "wait", None) is not None and not 0 <= options.wait <= MAX_WAIT_SECONDS:
        raise invalid("--wait", options.wait, f"must be between 0 and {MAX_WAIT_SECONDS} seconds")
    try:
        number = ordered(options.target, _command(options))
    except BackfillError as error:
        if not droppable(error, options):
            raise
        return _submitted(options, {"command": "cancel", "number": None}, f"the build cannot be read: {error}")
    result: dict[str, Any] = {"command": options.command, "number": number}
    text = f"{options.command} is command {number}; the next barrier acknowledges it"
    if options.command == "cancel":
        return (result, text) if options.no_submit else _submitted(options, result, text)
    if options.wait is None:
        return result, text
    known = acknowledged(options.target, number, options.wait)
    said = "acknowledged" if known else f"not acknowledged within {options.wait:g} s: is a task of the build running?"
    return {**result, "acknowledged": known}, f"{text}\n{said}"


def _submitted(options: argparse.Namespace, result: dict[str, Any], text: str) -> tuple[dict[str, Any], str]:
    from airflow_backfill.cli.submit import cancel

    outcome = cancel(options)
    dropped = ", ".join(outcome.get("dropped", ())) or "nothing"
    return {**result, **outcome}, f"{text}\nthe build is cancelled; dropped: {dropped}"


def droppable(error: BackfillError, options: argparse.Namespace) -> bool:
    """Whether to drop a target although its build cannot be read."""
    wanted = options.command == "cancel" and options.drop and not options.no_submit
    return wanted and unreadable(error)


def _command(options: argparse.Namespace) -> Command:
    verb = Verb(options.command)
    if verb is Verb.CANCEL:
        return Command(verb, drop=options.drop, signed=Signature(why=options.why, via="cli"))
    if verb is not Verb.THROTTLE:
        return Command(verb)
    return Command(verb, rate=_rate("rate", options.rate), byte_rate=_rate("bytes", options.bytes))


def _rate(name: str, text: str) -> int | None:
    if text == "none":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise invalid(name, text, "must be a whole number per second, or 'none' for no limit")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
