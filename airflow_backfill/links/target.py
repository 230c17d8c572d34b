"""A link to the table that a task builds."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperator, BaseOperatorLink

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.ledger.location import Location

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

_CONSOLES = {
    "s3": "https://s3.console.aws.amazon.com/s3/buckets/{bucket}?prefix={path}/",
    "s3a": "https://s3.console.aws.amazon.com/s3/buckets/{bucket}?prefix={path}/",
    "gs": "https://console.cloud.google.com/storage/browser/{bucket}/{path}",
}


class TargetLink(BaseOperatorLink):
    """The target's folder: in the web console of its store if there is one, else its location."""

    name = "Target"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return page_of(getattr(operator, "target", ""))


def page_of(target: str) -> str:
    """The address of the table's folder for a browser; empty for what is no location, such as a template."""
    try:
        location = Location.parse(target)
    except InvalidSpec:
        return ""
    if location.scheme in _CONSOLES:
        return _CONSOLES[location.scheme].format(bucket=quote(location.authority), path=quote(location.path.strip("/")))
    return f"file://{quote(location.path)}" if location.local else location.url
