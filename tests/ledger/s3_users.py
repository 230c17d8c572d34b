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
ORDERING = "workers of `CommandOperator` and `ThrottleOperator`"
PAUSING, SUBMITTING = "the command line: pause", "the command line: plan"
CLEANING, ANSWERING = "the command line: clean", "the command line: approve"
ALL = (SPARK, WORKER, PAGE, TRIGGERER, ORDERING, PAUSING, SUBMITTING, CLEANING, ANSWERING)
"""How the rows of the table begin."""
Right = tuple[str, str]
"""What may be done, and the folder that it is for."""
ACTIONS = {"read": "s3:GetObject", "list": "s3:ListBucket", "write": "s3:PutObject", "delete": "s3:DeleteObject"}


def documented(who: str) -> list[Right]:
    """Each right of this row of the table."""
    (row,) = re.findall(rf"^\| {who}.*", DOCUMENTED.read_text(), re.MULTILINE)
    found = []
    for place, cell in zip(PLACES, row.strip("| ").split("|")[1:], strict=True):
        for part in cell.split(";"):
            named = [f"/{folder}" for folder in re.findall(r"`(\w+)/`", part)]
            below = named or ["/_delta_log" if "the log only" in part else ""]
            rights = [right for right in ACTIONS if re.search(rf"\b{right}s?\b", part)]
            found += [(right, place + folder) for folder in below for right in rights]
        if "as *Spark*" in cell:
            found += [one for one in documented(SPARK) if one[1] == place]
    return found


def policy(who: str, without: Right | None = None) -> str:
    """These rights as IAM says them, perhaps but one."""
    objects = [
        {"Effect": "Allow", "Action": ACTIONS[right], "Resource": [f"{BUCKET}/{folder}", f"{BUCKET}/{folder}/*"]}
        for right, folder in documented(who)
        if right != "list" and (right, folder) != without
    ]
    rights = {right for right, _ in documented(who)}
    of_bucket = [
        {"Effect": "Allow", "Action": ACTIONS[right], "Resource": BUCKET} for right in OF_BUCKET if right in rights
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": [*objects, *of_bucket] or [NOTHING]})


OF_BUCKET = ("list", "delete")
"""What moto asks of the whole bucket. S3 asks for a right to delete of each object, also where several are deleted."""
NOTHING = {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}


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

    def _key(self, policy: str) -> dict[str, str]:
        """Of the user with this policy."""
        if policy not in self._keys:
            iam, name = boto3.client("iam"), f"user-{len(self._keys)}"
            iam.create_user(UserName=name)
            iam.put_user_policy(UserName=name, PolicyName="documented", PolicyDocument=policy)
            key = iam.create_access_key(UserName=name)["AccessKey"]
            known = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
            self._keys[policy] = known
        return self._keys[policy]

    @contextmanager
    def acting(self, who: str, without: Right | None = None) -> Iterator[None]:
        """Whatever the block does is done by a user of this row, perhaps ``without`` one of its rights."""
        key = self._key(policy(who, without))
        with self._patch.context() as patch, enable_iam_authentication():
            for name, value in key.items():
                patch.setenv(name, value)
            yield
