"""``table-backfill``: where a build is, and what it should do next."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from airflow_backfill.cli.cancel import submit_cancel
from airflow_backfill.cli.command import ordered
from airflow_backfill.cli.status import as_text, status
from airflow_backfill.core.control import Command, Verb
from airflow_backfill.core.errors import BackfillError, InvalidSpec

PLAIN = (Verb.PAUSE, Verb.RESUME, Verb.HOLD, Verb.RELEASE)


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(prog="table-backfill", description=__doc__)
    commands = arguments.add_subparsers(dest="command", required=True, metavar="COMMAND")
    helps = {
        "status": "where a build is",
        "pause": "start no new unit of work",
        "resume": "lift a pause",
        "hold": "keep the gate closed; the target stays fresh meanwhile",
        "release": "lift a hold",
        "throttle": "limit the rows per second; 0 is a pause, 'none' lifts the limit",
        "cancel": "end the build; plan it again to go on",
    }
    for name, text in helps.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("target", help="location of the target table")
        command.add_argument("--json", action="store_true", help="print JSON")
        if name == "throttle":
            command.add_argument("rate", help="rows per second, or 'none'")
        if name == "cancel":
            command.add_argument("--drop", action="store_true", help="remove what the plan made, too")
            command.add_argument(
                "--no-submit", action="store_true", help="only order it; submit the application yourself"
            )
            command.add_argument("--spark-submit", default="spark-submit", help="how to start Spark")
            command.add_argument("--conf", action="append", default=[], help="Spark setting NAME=VALUE; repeatable")
            command.add_argument("--jars", help="as spark-submit takes them")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """0 if it was done, 1 for a coded error; a wrong command line ends with 2."""
    options = parser().parse_args(argv)
    try:
        result, text = _perform(options)
    except BackfillError as error:
        print(json.dumps(error.to_json()) if options.json else str(error), file=sys.stderr)
        return 1
    print(json.dumps(result) if options.json else text)
    return 0


def _perform(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    if options.command == "status":
        found = status(options.target)
        return found, as_text(found)
    number = ordered(options.target, _command(options))
    result: dict[str, Any] = {"command": options.command, "number": number}
    text = f"{options.command} is command {number}; the record of the next barrier acknowledges it"
    if options.command == "cancel" and not options.no_submit:
        outcome = submit_cancel(options)
        return {**result, **outcome}, f"{text}\nthe build is cancelled; dropped: {outcome.get('dropped', 'nothing')}"
    return result, text


def _command(options: argparse.Namespace) -> Command:
    verb = Verb(options.command)
    if verb in PLAIN:
        return Command(verb)
    if verb is Verb.CANCEL:
        return Command(verb, drop=options.drop)
    if options.rate == "none":
        return Command(verb)
    if not options.rate.isascii() or not options.rate.isdigit():
        raise InvalidSpec(f"rate: rows per second or 'none' (got {options.rate!r})", field="rate", value=options.rate)
    return Command(verb, rate=int(options.rate))


if __name__ == "__main__":
    sys.exit(main())
