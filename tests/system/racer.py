"""One of two applications that commit to one table in a bucket at the same time: a program.

For each number that it reads from a pipe it tries to commit that version of an id that both share, then of its own id.
It says what it was told. At 0 it makes the table.
"""

from __future__ import annotations

import sys

from py4j.protocol import Py4JJavaError

from airflow_backfill.spark.delta_internals import commit_nothing
from airflow_backfill.spark.run.application import session
from airflow_backfill.spark.session.failure import conflict_of

if __name__ == "__main__":
    target, me, pipe = sys.argv[1:]
    numbers = open(pipe)
    spark = session()
    for line in numbers:
        told = ["told"]
        if int(line) == 0:
            spark.range(0).write.format("delta").save(target)
        for app_id in ("shared", me) if int(line) else ():
            try:
                commit_nothing(spark, target, app_id, int(line), me)
                told.append("done")
            except Py4JJavaError as error:
                told.append(conflict_of(error) or "?")
        print(*told, flush=True)
    spark.stop()
