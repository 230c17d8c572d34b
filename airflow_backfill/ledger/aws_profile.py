"""The credentials of a profile in AWS's own files, for readers without Spark: obstore does not look there."""

from __future__ import annotations

import os
from collections.abc import Collection
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow_backfill.core.errors import InvalidSpec

KEPT = timedelta(minutes=5)
"""How long credentials are used before they are asked for again."""
_FILES = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}
_NAMES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
_FOUND_BY_OBSTORE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)


class Profile:
    """What obstore asks for credentials, and the region. It reads the files again each time, so that keys may be
    replaced there; boto3 gets those of a role or of an ``aws sso login``, and its errors say what is missing.
    """

    def __init__(self) -> None:
        self._boto3: Any = import_module("boto3")
        region = self._session().region_name
        self.config = {"region": region} if region and not os.environ.get("AWS_REGION") else {}

    @staticmethod
    def given(options: Collection[str]) -> Profile | None:
        """The profile that the environment names, or the default one; None if obstore finds credentials by itself, or
        there are no such files. ``options``: names of the store's settings. InvalidSpec for a profile without use.
        """
        if not {name.upper() for name in (*options, *os.environ)}.isdisjoint(_FOUND_BY_OBSTORE):
            return None
        named = next((f"{name}={os.environ[name]}" for name in _NAMES if os.environ.get(name)), None)
        written = any(Path(os.environ.get(name, usual)).expanduser().is_file() for name, usual in _FILES.items())
        if named is None and not written:
            return None
        if find_spec("boto3") is None:
            if named is None:
                return None
            raise InvalidSpec(f"{named}: to read AWS's profiles, install the package boto3 on this machine")
        try:
            found = Profile()
            usable = found._session().get_credentials() is not None
        except import_module("botocore.exceptions").BotoCoreError as error:
            raise InvalidSpec(f"{named or 'the default profile of AWS'}: {error}") from None
        if named is not None and not usable:
            raise InvalidSpec(f"{named}: this profile has no credentials; add them, or unset the variable")
        return found if usable else None

    def _session(self) -> Any:
        return self._boto3.Session()

    def __call__(self) -> Any:
        return import_module("obstore.auth.boto3").Boto3CredentialProvider(self._session(), ttl=KEPT)()
