"""What Airflow has to know about this provider."""

from __future__ import annotations

from typing import Any

_PACKAGE = "airflow_backfill"
_INTEGRATION = "Table backfill"


def get_provider_info() -> dict[str, Any]:
    """The provider's entry, as Airflow's ``provider_info.schema.json`` wants it."""
    return {
        "package-name": "airflow-backfill",
        "name": _INTEGRATION,
        "description": "Builds a new Delta table from a source that keeps changing, and hands it over.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://docs.delta.io/latest/delta-change-data-feed.html",
                "tags": ["software"],
            }
        ],
        "operators": _modules(
            *("operators.plan", "operators.snapshot", "operators.consume_log", "operators.catch_up"),
            *("operators.verify", "operators.finish", "operators.upstream", "operators.command"),
            *("operators.cancel", "operators.recover", "operators.repair", "operators.prove", "operators.explain"),
            *("operators.service", "operators.served", "operators.throttle", "operators.approval"),
            *("operators.watch", "operators.answer"),
        ),
        "sensors": _modules("sensors.gate", "sensors.await_finish", "sensors.await_epoch", "sensors.admission"),
        "triggers": _modules(
            *("triggers.gate", "triggers.lag", "triggers.finish", "triggers.epoch", "triggers.request"),
            "triggers.admission",
        ),
        "hooks": _modules("hooks.ledger", "hooks.airflow_api"),
        "connection-types": [
            {
                "connection-type": "table_backfill",
                "hook-class-name": f"{_PACKAGE}.hooks.ledger.LedgerHook",
                "hook-name": "Table backfill",
                "ui-field-behaviour": {
                    "hidden-fields": ["host", "port", "login", "password", "schema"],
                    "relabeling": {"extra": "Settings of the tables' store"},
                    "placeholders": {"extra": '{"aws_region": "eu-central-1"}'},
                },
            }
        ],
        "extra-links": [
            f"{_PACKAGE}.links.spark_ui.SparkUiLink",
            f"{_PACKAGE}.links.target.TargetLink",
        ],
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{name}" for name in names]}]
