"""A store in a bucket, through obstore."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache, partial
from html import unescape
from importlib import import_module
from io import BufferedReader
from typing import Any, BinaryIO

from airflow_backfill.core.errors import InvalidSpec, SourceUnavailable, UnsafeCommitStore
from airflow_backfill.ledger.aws_profile import Profile
from airflow_backfill.ledger.location import Location, first_line
from airflow_backfill.ledger.requests import REQUESTS
from airflow_backfill.ledger.store import CHUNK_BYTES, HIDDEN, NotFound, RangesFile, checked, expired

_SCHEMES = {
    "s3": ("s3", "aws_"),
    "s3a": ("s3", "aws_"),
    "gs": ("gs", "google_"),
    "abfs": ("abfs", "azure_"),
    "abfss": ("abfss", "azure_"),
}
"""Hadoop's scheme: obstore's scheme, and the prefix of its settings."""
SKEWED = "RequestTimeTooSkewed"
"""S3's code for a request that is signed at another time than its own."""
NAMELESS = "object with invalid path"
"""What obstore says of an object with two slashes in a row."""
_SAID = re.compile(r"<Code>([^<]+)</Code>\s*<Message>([^<\n]*)")
"""What a service says of a refusal."""
_CONFLICT_SECONDS = (0.1, 0.2, 0.4, 0.8)
"""Waits before a creation is repeated that has met another request for the same object."""
RETRIES = {
    "max_retries": 100,
    "retry_timeout": timedelta(seconds=20),
    "backoff": {"base": 4, "max_backoff": timedelta(seconds=5)},
}
"""A request is repeated for 20 seconds, about ten times: one that fails costs a task one of its tries."""
_RANGE = "range"
"""In what obstore says of an object, if it is about the range that was asked for."""
_NO_BUCKET = "NoSuchBucket"
CLOCK_WRONG = "the service refuses requests of this machine, because its clock is wrong; set the clock"
_CLIENT_OPTIONS = frozenset(
    {"allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only"}
    | {"http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_max_frame_size"}
    | {"http2_only", "pool_idle_timeout", "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes"}
    | {"proxy_url", "randomize_addresses", "read_timeout", "timeout", "user_agent"}
)
"""Settings of the connection to any store, here with the store's prefix: ``aws_allow_http``."""
_PANIC = "PanicException"
"""What obstore raises for a setting that it cannot put into a request. It cannot be imported, and is no Exception."""
PAGE = 1000
"""Names in a page of a listing, at most."""
LAST = chr(0x10FFFF)
"""Sorts after all names."""
_CLIENTS = 64
"""Buckets with their settings that one process keeps a client for."""


class ObjectStore:
    """Objects under one prefix of a bucket; ``create`` is a conditional put (only if absent).

    Some services with an S3 API ignore that condition: test it before you plan a build on such a service.
    """

    def __init__(self, location: Location, options: Mapping[str, Any]) -> None:
        self._location = location
        if location.scheme not in _SCHEMES or not location.authority:
            raise InvalidSpec(f"{self.url} cannot be read without Spark; use one of {', '.join(_SCHEMES)}, or a path")
        scheme, prefix = _SCHEMES[location.scheme]
        foreign = sorted(key for key in options if not key.startswith(prefix))
        if foreign:
            raise InvalidSpec(f"{self.url} takes only settings that begin with {prefix}; remove {', '.join(foreign)}")
        try:
            self._obstore: Any = import_module("obstore")
            errors: Any = import_module("obstore.exceptions")
        except ModuleNotFoundError as error:
            raise InvalidSpec(
                f"the package obstore is required to read {self.url}; install it on this machine"
            ) from error
        self._errors = errors
        # To read a value costs more than to look at all names, and hundreds of builds open four stores each.
        given = {name: os.environ[name] for name in os.environ if name.lower().startswith(prefix)}
        try:
            self._bucket = _client(
                f"{scheme}://{location.authority}", prefix, tuple(sorted(options.items())), tuple(sorted(given.items()))
            )
        except (errors.BaseError, TypeError, ValueError) as error:
            raise InvalidSpec(f"{self.url}: {first_line(error)}") from None
        # Like Hadoop: a slash more is no folder more, nor is a dot.
        self._root = "".join(f"{part}/" for part in location.path.split("/") if part not in ("", "."))

    @property
    def url(self) -> str:
        return self._location.url

    def list(self, folder: str, after: str = "") -> Sequence[str]:
        start = f"{self._path(folder)}/" if folder else self._root
        with self._trouble(folder):
            # Some services list without order. A folder that a tool has made is an object without a name.
            return sorted(name for name in self._listed(start, after) if name and not name.startswith(HIDDEN))

    def _listed(self, start: str, after: str) -> Iterator[str]:
        """The names after ``after``. The service also lists the objects in subfolders, which are skipped: those of a
        large one by another request, for what follows them.
        """
        prefix, offset = start.removesuffix("/") or None, f"{start}{after}" if after else None
        for n, page in enumerate(self._obstore.list(self._bucket, prefix=prefix, offset=offset, chunk_size=PAGE)):
            REQUESTS.count(int(n > 0))
            found = [entry["path"][len(start) :] for entry in page]
            yield from (name for name in found if "/" not in name)
            subfolder, below, _ = found[-1].partition("/")
            if below and len(found) == PAGE and found == sorted(found):
                REQUESTS.count()
                yield from self._listed(start, f"{subfolder}/{LAST}")
                return

    def folders(self, folder: str) -> Sequence[str]:
        prefix = self._path(folder) if folder else self._root.removesuffix("/")
        with self._trouble(folder):
            found = self._obstore.list_with_delimiter(self._bucket, prefix=prefix or None)
        names = (str(prefix).rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])
        return sorted(name for name in names if name and not name.startswith(HIDDEN))

    def read(self, name: str, limit: int) -> bytes:
        # Asks for these bytes only: a commit may have a gigabyte.
        path = self._path(name)
        with self._trouble(name), self._there(name):
            try:
                return bytes(self._obstore.get_range(self._bucket, path, start=0, end=limit))
            except self._errors.BaseError as error:
                if _RANGE in str(error).lower():  # an empty object has none
                    REQUESTS.count()
                    with suppress(self._errors.BaseError):  # which says less
                        if not self._obstore.head(self._bucket, path)["size"]:
                            return b""
                raise

    def chunks(self, name: str) -> Iterator[bytes]:
        path = self._path(name)
        with self._trouble(name), self._there(name):
            for chunk in self._obstore.get(self._bucket, path).stream(CHUNK_BYTES):
                yield bytes(chunk)

    def open(self, name: str) -> BinaryIO:
        path = self._path(name)
        with self._trouble(name), self._there(name):
            size = self._obstore.head(self._bucket, path)["size"]
            return BufferedReader(RangesFile(size, partial(self._range, name)), CHUNK_BYTES)

    def _range(self, name: str, start: int, stop: int) -> bytes:
        with self._trouble(name):
            return bytes(self._obstore.get_range(self._bucket, self._path(name), start=start, end=stop))

    def create(self, name: str, data: bytes) -> bool:
        with self._trouble(name):
            for seconds in _CONFLICT_SECONDS:
                with suppress(self._errors.AlreadyExistsError):
                    return self._created(self._path(name), data)
                time.sleep(seconds)
                REQUESTS.count()
            return self._created(self._path(name), data)

    def _created(self, path: str, data: bytes) -> bool:
        """Whether this request has created the object; obstore's AlreadyExistsError if no request has. S3 answers 409
        if it met another one for the same object, and obstore takes that for a 412.
        """
        try:
            self._obstore.put(self._bucket, path, data, mode="create", use_multipart=False)
        except self._errors.AlreadyExistsError:
            REQUESTS.count()
            try:
                self._obstore.head(self._bucket, path)
            except FileNotFoundError:
                pass
            else:
                return False
            raise
        except (self._errors.NotSupportedError, NotImplementedError) as error:
            raise UnsafeCommitStore(
                f"{self.url} has no conditional put, so two writers can commit the same version; use another store"
            ) from error
        return True

    def put(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with self._trouble(name):
            self._obstore.put(self._bucket, path, data, use_multipart=False)

    def delete(self, name: str) -> None:
        path = self._path(name)
        try:
            with self._trouble(name), self._there(name):
                self._obstore.delete(self._bucket, path)
        except NotFound:
            pass

    def _path(self, name: str) -> str:
        return self._root + checked(name)

    @contextmanager
    def _there(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if _NO_BUCKET in str(error):
                raise
            raise NotFound(self.url, name) from None

    @contextmanager
    def _trouble(self, name: str) -> Iterator[None]:
        """A request. Those that an operation may need beside it count themselves."""
        REQUESTS.count()
        try:
            yield
        except (self._errors.BaseError, OSError) as error:
            # Not chained: the full text of these errors contains the request, which may be signed.
            said = str(error)
            if NAMELESS in said:
                raise InvalidSpec(
                    f"{self.url}/{name}: {first_line(error)}. A folder that holds such an object cannot be listed; "
                    "rename the object, or move it away"
                ) from None
            why = CLOCK_WRONG if SKEWED in said else _told(said)
            raise expired(self.url, said) or SourceUnavailable(f"{self.url}/{name}: {why}", file=name) from None
        except BaseException as error:
            if type(error).__name__ != _PANIC:
                raise
            raise InvalidSpec(
                f"{self.url}: obstore can send no request: {first_line(error)}. A setting of the store is wrong, such "
                "as an endpoint without http:// or a key with a line break; correct it in the connection in "
                "ledger_conn_id, or in the environment"
            ) from None


@lru_cache(_CLIENTS)
def _client(
    bucket: str, prefix: str, options: tuple[tuple[str, Any], ...], environment: tuple[tuple[str, str], ...]
) -> Any:
    """The client of a bucket: one for all stores of a process with the same settings, so that they share connections.

    ``environment`` holds the variables that are read for it: with other ones it is another client.
    """
    given = dict(options)
    provider = given.pop(f"{prefix}credential_provider", None)
    if provider is None and prefix == "aws_":
        provider = Profile.given(given)
    of_client = {name: given.pop(key) for key in (*given,) if (name := key.removeprefix(prefix)) in _CLIENT_OPTIONS}
    plain = any(value.startswith("http://") for value in given.values())
    return import_module("obstore.store").from_url(
        bucket,
        config=given,
        client_options={**({"allow_http": "true"} if plain else {}), **of_client} or None,
        credential_provider=provider,
        retry_config=RETRIES,
    )


def _told(said: str) -> str:
    """The first line of an error, with code and message of the service, which are in its body."""
    found = _SAID.search(said)
    if found is None:
        return first_line(said)
    return f"{first_line(said.partition('<')[0])}{found[1]}: {unescape(first_line(found[2]))}"
