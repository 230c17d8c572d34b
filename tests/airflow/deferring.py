"""Puts every sensor of the DAGs in a folder where the triggerer takes it over, as if a worker had deferred it:
``python -m tests.airflow.deferring FOLDER``, with the environment of an Airflow.
"""

from __future__ import annotations

import sys
import time


def main(folder: str) -> None:
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.trigger import Trigger
    from airflow.sdk import timezone
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState, TaskInstanceState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    with create_session() as session:
        DagBundlesManager().sync_bundles_to_db(session=session)
    bag = BundleDagBag(dag_folder=folder, bundle_path=folder, bundle_name="dags-folder")
    assert not bag.import_errors, bag.import_errors
    sync_bag_to_db(bag, "dags-folder", None)
    now = timezone.utcnow()
    for dag in bag.dags.values():
        with create_session() as session:
            run = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).create_dagrun(
                run_id="waits",
                logical_date=now,
                data_interval=(now, now),
                run_after=now,
                run_type=DagRunType.MANUAL,
                triggered_by=DagRunTriggeredByType.TEST,
                state=DagRunState.RUNNING,
                session=session,
            )
            for waiting in run.get_task_instances(session=session):
                task = dag.task_dict[waiting.task_id]
                path, arguments = task.trigger(deadline=time.time() + 86_400).serialize()
                trigger = Trigger(classpath=path, kwargs=arguments)
                session.add(trigger)
                session.flush()
                waiting.trigger_id, waiting.state = trigger.id, TaskInstanceState.DEFERRED
                waiting.next_method = "resumed"


if __name__ == "__main__":
    main(sys.argv[1])
