"""A bucket on this machine whose users have the rights that the documentation names: moto enforces them as IAM
policies, and the policies are made of the documented table. moto looks at no condition, so a right to list is one for
the whole bucket.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
from moto.core.authorization import enable_iam_authentication

DOCUMENTED = Path(__file__).parents[2] / "docs" / "rights.md"
BUCKET = "arn:aws:s3:::lake"
LAKE, PLACES = "s3a://lake", ("source", "target", "target.backfill")
SPARK, WORKER, PAGE, TRIGGERER = "Spark", "workers that run the tasks", "the API server", "the triggerer; sensors"
ALL = (SPARK, WORKER, PAGE, TRIGGERER)
ACTIONS = {"read": "s3:GetObject", "list": "s3:ListBucket", "write": "s3:PutObject", "delete": "s3:DeleteObject"}


def documented(who: str) -> list[tuple[str, str]]:
    """Each right of this row of the table, and the folder that it is for."""
    (row,) = re.findall(rf"^\| {who}.*", DOCUMENTED.read_text(), re.MULTILINE)
    found = []
    for place, cell in zip(PLACES, row.strip("| ").split("|")[1:], strict=True):
        for part in cell.split(";"):
            named = re.search(r"`(\w+)/`", part)
            below = f"/{named[1]}" if named else "/_delta_log" if "the log only" in part else ""
            found += [(right, place + below) for right in ACTIONS if re.search(rf"\b{right}\b", part)]
    return found


def policy(who: str) -> str:
    """These rights as IAM says them."""
    objects = [
        {"Effect": "Allow", "Action": ACTIONS[right], "Resource": [f"{BUCKET}/{folder}", f"{BUCKET}/{folder}/*"]}
        for right, folder in documented(who)
        if right != "list"
    ]
    lists = {"Effect": "Allow", "Action": ACTIONS["list"], "Resource": BUCKET}
    return json.dumps({"Version": "2012-10-17", "Statement": [*objects, lists]})


class Users:
    """A bucket, and users of it with the documented rights."""

    def __init__(self, options: dict[str, str], patch: pytest.MonkeyPatch) -> None:
        self._patch, self._keys = patch, dict[str, dict[str, str]]()
        self.root = {name.upper(): value for name, value in options.items() if name != "aws_endpoint"}
        patch.setenv("AWS_ENDPOINT_URL", options["aws_endpoint"])
        patch.setenv("AWS_ALLOW_HTTP", "true")
        patch.setenv("AWS_DEFAULT_REGION", options["aws_region"])
        for name, value in self.root.items():
            patch.setenv(name, value)
        iam = boto3.client("iam")
        for number, who in enumerate(ALL):
            name = f"user-{number}"
            iam.create_user(UserName=name)
            iam.put_user_policy(UserName=name, PolicyName="documented", PolicyDocument=policy(who))
            key = iam.create_access_key(UserName=name)["AccessKey"]
            self._keys[who] = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}

    @contextmanager
    def acting(self, who: str) -> Iterator[None]:
        """Whatever the block does is done by this user."""
        with self._patch.context() as patch, enable_iam_authentication():
            for name, value in self._keys[who].items():
                patch.setenv(name, value)
            yield
