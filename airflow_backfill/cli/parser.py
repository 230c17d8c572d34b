"""The command line of ``table-backfill``: its commands and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from airflow_backfill.core.values.arguments import Arguments
from airflow_backfill.core.values.row_hash import RowHash

DEFAULT_REFRESH_SECONDS = 2.0
HELP = {
    "list": "show all builds below a folder, one line each",
    "status": "show the progress of a build, and what it waits for",
    "plan": "plan a build; with --explain, show preconditions, cost and a rehearsal, and create nothing",
    "pause": "interrupt the running round, and start no new one until a resume",
    "resume": "end a pause",
    "hold": "keep the gate closed; the build still applies new epochs",
    "release": "end a hold",
    "skip": "for a topic: count the lost records of the history, and go on without them for good",
    "dead-letter": "for a topic: put undecodable records into a table beside the target, and go on without them",
    "approve": "allow the hand-off that a task of Airflow asks for",
    "reject": "refuse the hand-off that a task of Airflow asks for",
    "throttle": "limit rows and bytes per second; 0 stops the build, 'none' removes the limits",
    "cancel": "end the build before its hand-off; a new plan resumes it",
    "clean": "remove old explanations, details of old errors, and parts of proofs from the folder beside the target",
    "prove": "compare the target with its source now; writes nothing, and the build goes on",
    "explain": "explain one row: the changes of its key in the source, and whether the target has the right values",
    "recover": "continue a build after a RESTORE of its target; with --epoch, one whose records are lost",
    "repair": "after a failed proof, rewrite the keys that differ from the source; then clear verify",
}


def parser() -> Arguments:
    """The parser of the whole command line."""
    arguments = Arguments(prog="table-backfill", description="Shows builds, and sends them commands.")
    commands = arguments.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in HELP.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == "list":
            command.add_argument("folder", help="location of the folder; builds are found at most four folders below")
        elif name == "plan":
            command.add_argument("spec", help="the spec as JSON, or the path of a file that holds it")
        else:
            command.add_argument("target", help="location of the target table")
        command.add_argument("--json", action="store_true", help="print JSON")
        if name not in ("approve", "reject"):
            command.add_argument(
                "--conn-id",
                metavar="ID",
                help="Airflow connection with the settings of the store; default: the settings of the environment",
            )
        _OPTIONS.get(name, _waiting)(command)
    return arguments


def _signed(command: argparse.ArgumentParser, destroys: str = "") -> None:
    command.add_argument(
        "--by", metavar="USER", help="who gives the command, for the log of commands; default: your user name"
    )
    command.add_argument("--why", metavar="REASON", help=f"the reason, for the log of commands{destroys}")


def _nothing(command: argparse.ArgumentParser) -> None:
    pass


def _waiting(command: argparse.ArgumentParser) -> None:
    _signed(command)
    command.add_argument(
        "--wait", type=float, metavar="SECONDS", help="seconds to wait at most until the build acknowledges the command"
    )


def _answer(command: argparse.ArgumentParser) -> None:
    command.add_argument("--why", metavar="REASON", help="the reason, for whoever looks at the build")
    command.add_argument(
        "--airflow-conn-id",
        default="airflow_api",
        metavar="ID",
        help="Airflow connection of type http to Airflow's API server: base URL, login and password; default: "
        "airflow_api, for example in the variable AIRFLOW_CONN_AIRFLOW_API",
    )


def _status(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--watch",
        type=float,
        nargs="?",
        const=DEFAULT_REFRESH_SECONDS,
        metavar="SECONDS",
        help="show it again and again until the build ends; seconds between two looks "
        f"({DEFAULT_REFRESH_SECONDS:g} if left out)",
    )


def _throttle(command: argparse.ArgumentParser) -> None:
    command.add_argument("rate", help="rows per second, or 'none' for no limit")
    command.add_argument("--bytes", default="none", help="bytes per second that the snapshot reads, or 'none'")
    command.add_argument("--until", metavar="TIME", help="when the limit ends: an ISO time with a zone")
    _waiting(command)


def _cancel(command: argparse.ArgumentParser) -> None:
    command.add_argument("--drop", action="store_true", help="also delete the target and the build's files beside it")
    command.add_argument(
        "--no-submit", action="store_true", help="only write the command; you start spark_apps/cancel.py yourself"
    )
    _signed(command, "; required with --drop")
    _spark(command)


def _recover(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--epoch",
        type=int,
        help="the epoch of the source that the target's rows equal; not needed after a RESTORE of the target",
    )
    _repair(command)


def _repair(command: argparse.ArgumentParser) -> None:
    _signed(command, "; required")
    _spark(command)


def _prove(command: argparse.ArgumentParser) -> None:
    command.add_argument("--full", action="store_true", help="read all of the source, whatever proof the build has")
    hashes = [by.value for by in RowHash]
    command.add_argument("--row-hash", default=hashes[0], choices=hashes, help="how to hash a row")
    _spark(command)


def _clean(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--days", type=float, default=30.0, help="remove explanations, and details of errors, that are older; in days"
    )


def _explain(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--key",
        action="append",
        required=True,
        metavar="COLUMN=VALUE",
        help="the key; repeat it for each of its columns",
    )
    command.add_argument(
        "--since",
        type=int,
        metavar="EPOCH|OFFSET",
        help="first epoch to look at; by default the one after the planned epoch, at most 10,000 before the newest. "
        "For a topic: first offset; by default at most 10,000,000 before the newest",
    )
    command.add_argument("--redact", action="store_true", help="hide values of rows, except the key")
    _spark(command)


def _plan(command: argparse.ArgumentParser) -> None:
    command.add_argument("--explain", action="store_true", help="only check and rehearse; create nothing")
    command.add_argument("--lanes", type=int, default=1, help="number of tasks that read the snapshot, as in the DAG")
    command.add_argument("--round-bytes", type=int, metavar="N", help="limit for the bytes of a round, as in the DAG")
    command.add_argument("--round-rows", type=int, metavar="N", help="limit for the rows of a round, as in the DAG")
    _spark(command)


def _spark(command: argparse.ArgumentParser) -> None:
    command.add_argument("--spark-submit", default="spark-submit", metavar="PATH", help="path of spark-submit")
    command.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a Spark setting; repeatable"
    )
    command.add_argument("--jars", help="jars for spark-submit, separated by commas")


_OPTIONS: Mapping[str, Callable[[argparse.ArgumentParser], None]] = {
    "list": _nothing,
    "status": _status,
    "approve": _answer,
    "reject": _answer,
    "throttle": _throttle,
    "cancel": _cancel,
    "clean": _clean,
    "plan": _plan,
    "prove": _prove,
    "explain": _explain,
    "recover": _recover,
    "repair": _repair,
}
"""What a command takes in addition; the others may wait for a barrier."""
