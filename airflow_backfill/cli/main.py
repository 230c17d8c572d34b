"""``table-backfill``: where a build is, and what it should do next."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from airflow_backfill.cli.command import acknowledged, ordered
from airflow_backfill.core.errors import BackfillError, InvalidSpec, NotAllowedNow, NotPlanned
from airflow_backfill.core.reports.way_out import way_out
from airflow_backfill.core.values.arguments import Arguments
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.options import invalid

MOST_SECONDS = 10_000_000
HELP = {
    "status": "where a build is, and what it waits for",
    "pause": "start no new unit of work",
    "resume": "lift a pause",
    "hold": "keep the gate closed; the target stays fresh meanwhile",
    "release": "lift a hold",
    "skip": "count what Kafka has lost of a topic's history, and go on from what is left",
    "throttle": "limit the rows and bytes per second; 0 is a pause, 'none' lifts the limit",
    "cancel": "end the build; plan it again to go on",
    "recover": "go on without the records in the log, from an epoch that is then proven",
    "repair": "rewrite the keys that a verification found to differ; it has to be verified again",
}


def parser() -> Arguments:
    arguments = Arguments(prog="table-backfill", description=__doc__)
    commands = arguments.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in HELP.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("target", help="location of the target table")
        command.add_argument("--json", action="store_true", help="print JSON")
        if name == "throttle":
            command.add_argument("rate", help="rows per second, or 'none'")
            command.add_argument("--bytes", default="none", help="bytes per second of what the snapshot reads")
        if name == "cancel":
            command.add_argument("--drop", action="store_true", help="remove what the plan made, too")
            command.add_argument(
                "--no-submit", action="store_true", help="only order it; submit the application yourself"
            )
            _add_spark(command)
        elif name == "recover":
            command.add_argument("--epoch", type=int, required=True, help="the epoch at which the target stands")
            _add_spark(command)
        elif name == "repair":
            _add_spark(command)
        elif name != "status":
            command.add_argument(
                "--wait", type=float, metavar="SECONDS", help="wait that long for a barrier to acknowledge it"
            )
    return arguments


def _add_spark(command: argparse.ArgumentParser) -> None:
    command.add_argument("--spark-submit", default="spark-submit", metavar="PATH", help="how to start Spark")
    command.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a Spark setting; repeatable"
    )
    command.add_argument("--jars", help="as spark-submit takes them")


def main(argv: Sequence[str] | None = None) -> int:
    """0 if it was done, 1 for a coded error or a command that nobody acknowledged; a wrong command line ends with 2."""
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
        # Here, because nothing else needs what it needs.
        from airflow_backfill.cli.status import as_text, status

        found = status(options.target)
        return found, as_text(found)
    if options.command == "recover":
        from airflow_backfill.cli.submit import recover

        found = recover(options)
        return found, f"the target is said to stand at epoch {found['epoch']}; it has to be verified, then finished"
    if options.command == "repair":
        from airflow_backfill.cli.submit import repair

        found = repair(options)
        return found, f"the target was repaired for epoch {found['epoch']}; it has to be verified again, then finished"
    if getattr(options, "wait", None) is not None and not 0 <= options.wait <= MOST_SECONDS:
        raise invalid("--wait", options.wait, f"must be between 0 and {MOST_SECONDS} seconds")
    try:
        number = ordered(options.target, _command(options))
    except BackfillError as error:
        if not droppable(error, options):
            raise
        return _submitted(options, {"command": "cancel", "number": None}, f"the build cannot be read: {error}")
    result: dict[str, Any] = {"command": options.command, "number": number}
    text = f"{options.command} is command {number}; the record of the next barrier acknowledges it"
    if options.command == "cancel":
        return (result, text) if options.no_submit else _submitted(options, result, text)
    if options.wait is None:
        return result, text
    known = acknowledged(options.target, number, options.wait)
    said = "acknowledged" if known else f"not acknowledged within {options.wait:g} s: is a task running?"
    return {**result, "acknowledged": known}, f"{text}\n{said}"


def _submitted(options: argparse.Namespace, result: dict[str, Any], text: str) -> tuple[dict[str, Any], str]:
    from airflow_backfill.cli.submit import cancel

    outcome = cancel(options)
    dropped = ", ".join(outcome.get("dropped", ())) or "nothing"
    return {**result, **outcome}, f"{text}\nthe build is cancelled; dropped: {dropped}"


def droppable(error: BackfillError, options: argparse.Namespace) -> bool:
    """Whether a target is to be dropped although its build cannot be read."""
    wanted = options.command == "cancel" and options.drop and not options.no_submit
    return wanted and not error.retry and not isinstance(error, (NotAllowedNow, NotPlanned))


def _command(options: argparse.Namespace) -> Command:
    verb = Verb(options.command)
    if verb is Verb.CANCEL:
        return Command(verb, drop=options.drop)
    if verb is not Verb.THROTTLE:
        return Command(verb)
    return Command(verb, rate=_rate("rate", options.rate), byte_rate=_rate("bytes", options.bytes))


def _rate(name: str, text: str) -> int | None:
    if text == "none":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise invalid(name, text, "must be a whole number per second, or 'none'")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
