"""Lineage of the tasks of a build, if Airflow's OpenLineage provider is installed and on.

Airflow asks an operator for its lineage in a fork of the task's process, where nothing may be read from a store. So it
is made before, from committed state, when the task has succeeded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_backfill.core.errors import BackfillError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_backfill.core.state.state import BuildState
    from airflow_backfill.notifications.open_lineage import Lineage


class TellsLineage(BaseOperator):
    """Tells OpenLineage the target when the task starts; source, target and their versions when it has succeeded."""

    entry_point: ClassVar[str]
    target: str
    lineage: Lineage | None = None

    def committed(self) -> BuildState:
        """The build's committed state."""
        raise NotImplementedError

    def servers(self) -> str | None:
        """The brokers of the task's connection to Kafka; None if it has none."""
        return None

    def post_execute(self, context: Context, result: Any = None) -> None:
        super().post_execute(context, result)
        if not _is_on():
            return
        try:
            from airflow_backfill.notifications.open_lineage import lineage

            self.lineage = lineage(self.entry_point, self.committed(), self.servers())
        except BackfillError as error:
            self.log.info("no lineage could be told: %s", error)  # a cancel has dropped the target, for one
        except Exception:
            self.log.warning("no lineage could be told", exc_info=True)

    def get_openlineage_facets_on_start(self) -> Lineage:
        """The target; nothing else is known before the task has read the build."""
        from airflow_backfill.notifications.open_lineage import only_target

        return only_target(self.target)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Lineage:
        """Source and target with their versions and columns; the target alone if the task has failed."""
        return self.lineage or self.get_openlineage_facets_on_start()


def _is_on() -> bool:
    try:
        from airflow.providers.openlineage.conf import is_disabled
    except ImportError:
        return False
    return not is_disabled()
