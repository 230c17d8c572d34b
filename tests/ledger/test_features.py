from __future__ import annotations

import pytest

from airflow_backfill.core.errors import UnsupportedTable
from airflow_backfill.core.values.commit import Protocol
from airflow_backfill.ledger.features import KNOWN, check_readable


def test_known_protocols_pass() -> None:
    check_readable(Protocol(1, 2))
    check_readable(Protocol(2, 6))
    check_readable(Protocol(3, 7, KNOWN, KNOWN))


@pytest.mark.parametrize(
    "feature",
    ["catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview", "redirectReaderWriter-preview",
     "redirectWriterOnly-preview", "adaptiveMetadata-preview", "featureOfTomorrow"],
)  # fmt: skip
def test_what_is_not_known_is_refused_by_name(feature: str) -> None:
    for protocol in (
        Protocol(3, 7, frozenset({feature}), KNOWN | {feature}),
        Protocol(3, 7, frozenset(), frozenset({feature})),
    ):
        with pytest.raises(UnsupportedTable, match=feature) as raised:
            check_readable(protocol)
        assert raised.value.data == {"features": [feature]}


@pytest.mark.parametrize("protocol", [Protocol(4, 7), Protocol(3, 8)])
def test_versions_of_tomorrow_are_refused(protocol: Protocol) -> None:
    with pytest.raises(UnsupportedTable, match="version"):
        check_readable(protocol)
