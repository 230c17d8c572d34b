"""A bucket on this machine whose users have the rights that the documentation names: moto enforces them as IAM
policies, and the policies are made of the documented tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from moto.core.authorization import enable_iam_authentication
from moto.iam import access_control
from moto.s3.models import s3_backends

from airflow_backfill.ledger.open_store import open_store

DOCUMENTED = Path(__file__).parents[2] / "docs" / "rights.md"
BUCKET = "arn:aws:s3:::lake"
SHOPS = OPEN, LATE, DONE, SPARE, TOPIC, WHOLE = "open", "late", "done", "spare", "topic", "whole"
"""Folders of the bucket, each with a source and a target."""
TABLES, SERVICE = ("source", "target", "target.backfill"), "service"
SPARK, WORKER, COMMANDER = "Spark: driver", "workers that run the tasks", "workers of `CommandOperator`"
ORDERS, SUBMITS, CLEANS = "the command line: pause", "the command line: plan", "the command line: clean"
PAGE, TRIGGERER = "the API server", "the triggerer; sensors"
ASKS, SERVES, WAITS = "workers whose tasks ask", "the service itself", "the triggerer, where"
OF_TABLES = (SPARK, WORKER, COMMANDER, ORDERS, SUBMITS, CLEANS, PAGE, TRIGGERER)
ALL = (*OF_TABLES, ASKS, SERVES, WAITS)
ACTIONS = {"read": "s3:GetObject", "list": "s3:ListBucket", "write": "s3:PutObject", "delete": "s3:DeleteObject"}
NOBODY: dict[str, str] = {"AWS_ACCESS_KEY_ID": "AKIANOBODY", "AWS_SECRET_ACCESS_KEY": "no secret"}

Right = tuple[str, str]
"""What may be done, and the folder in which."""


def documented(who: str) -> list[Right]:
    """Each right of this row of a table."""
    (row,) = re.findall(rf"^\| {re.escape(who)}.*", DOCUMENTED.read_text(), re.MULTILINE)
    cells = row.strip("| ").split(" | ")[1:]
    found = []
    for place, cell in zip(TABLES if who in OF_TABLES else (SERVICE,), cells, strict=True):
        for part in cell.split(";"):
            below = [f"/{name}" for name in re.findall(r"`(\w+)/`", part)]
            below = below or ["/_delta_log" if "the log only" in part else ""]
            found += [
                (right, place + folder) for right in ACTIONS if re.search(rf"\b{right}\b", part) for folder in below
            ]
    return found


def policy(rights: list[Right]) -> str:
    """These rights in each shop, as IAM says them, except that a right to list names a prefix as if it was an object:
    moto looks at no condition.
    """
    statements = []
    for right, folder in rights:
        places = [f"{BUCKET}{':' if right == 'list' else '/'}{shop}/{folder}".rstrip("/") for shop in SHOPS]
        resource = [name for place in places for name in (place, f"{place}/*")]
        statements.append({"Effect": "Allow", "Action": ACTIONS[right], "Resource": resource})
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


class _AsS3(access_control.S3IAMRequest):
    """Decides as S3 does: a right to list is one for a prefix, one to delete is asked for each object, and who may not
    list is not told that an object is missing.
    """

    def check_action_permitted(self, resource: str) -> None:
        asked = parse_qs(urlsplit(self._path).query, keep_blank_values=True)
        if self._action == ACTIONS["list"]:
            return super().check_action_permitted(f"{BUCKET}:{asked.get('prefix', [''])[0]}")
        if "delete" in asked:
            self._action = ACTIONS["delete"]
            for key in re.findall(r"<Key>(.*?)</Key>", self._body.decode()):
                super().check_action_permitted(f"{BUCKET}/{key}")
            return None
        super().check_action_permitted(resource)
        key = resource.removeprefix(f"{BUCKET}/")
        if self._action == ACTIONS["read"] and key not in s3_backends[self.account_id]["aws"].buckets["lake"].keys:
            self._action = ACTIONS["list"]
            super().check_action_permitted(f"{BUCKET}:{key}")
        return None


class Users:
    """A bucket, and users of it with the documented rights."""

    def __init__(self, options: dict[str, str], patch: pytest.MonkeyPatch) -> None:
        self._patch, self._keys = patch, dict[str, dict[str, str]]()
        patch.setattr(access_control, "S3IAMRequest", _AsS3)
        self.endpoint = options["aws_endpoint"]
        patch.setenv("AWS_ENDPOINT_URL", self.endpoint)
        patch.setenv("AWS_ALLOW_HTTP", "true")
        patch.setenv("AWS_DEFAULT_REGION", options["aws_region"])
        for name in ("aws_access_key_id", "aws_secret_access_key", "aws_region"):
            patch.setenv(name.upper(), options[name])
        self._iam = boto3.client("iam")
        for number, who in enumerate(ALL):
            self._iam.create_user(UserName=f"user-{number}")
            key = self._iam.create_access_key(UserName=f"user-{number}")["AccessKey"]
            self._keys[who] = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
            self._allow(who, documented(who))

    def _allow(self, who: str, rights: list[Right]) -> None:
        name = f"user-{ALL.index(who)}"
        self._iam.put_user_policy(UserName=name, PolicyName="documented", PolicyDocument=policy(rights))

    def keys(self, who: str | None) -> dict[str, str]:
        """The environment variables of a user; None is somebody whom the service does not know."""
        return NOBODY if who is None else self._keys[who]

    @contextmanager
    def changed(self, who: str, rights: Iterable[Right]) -> Iterator[None]:
        """While the block runs, the user has these rights."""
        self._allow(who, [*rights])
        try:
            yield
        finally:
            self._allow(who, documented(who))

    @contextmanager
    def acting(self, who: str | None, connection: str | None = None) -> Iterator[None]:
        """Whatever the block does is done by this user. The connection "row" has the credentials of another one."""
        with self._patch.context() as patch, enable_iam_authentication():
            for name, value in self.keys(who).items():
                patch.setenv(name, value)
            if connection is not None:
                extra = {name.lower(): value for name, value in self.keys(connection).items()}
                patch.setenv("AIRFLOW_CONN_ROW", json.dumps({"conn_type": "table_backfill", "extra": extra}))
            yield


def upload(folder: Path, location: str) -> None:
    """Put the files below a folder into the bucket."""
    store = open_store(location)
    for file in folder.rglob("*"):
        if file.is_file():
            store.put(str(file.relative_to(folder)), file.read_bytes())
