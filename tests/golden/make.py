"""Makes golden tables: builds that were stopped in the middle by one version of the package.

Later versions have to finish them (``tests/spark/test_golden_builds.py``) and to read their documents
(``tests/core/test_golden_documents.py``).

Format 1 was made with the code of commit bb07261 (version 0.1.0). A format that was released is never made again:
its archives stand for what lies in people's targets. A new format gets a folder of its own. To make one, start this
beside the code that writes it (copy this folder there if it is older than the folder):

    python -m tests.golden.make format_2 [CASE ...]

Builds are driven by their public command lines, and killed by ``TABLE_BACKFILL_CRASH`` (see ``faults``). Records of
topics need a broker to go on: of theirs there are documents only.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from airflow_backfill.cli.main import main as table_backfill
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.ledger.control_folder import ControlFolder
from demo.kafka.broker import Broker
from demo.kafka.topic import Record, Topic
from environment import quick
from tests.golden.archive import ARCHIVES, DOCUMENTS, locked, pack
from tests.spark.history import Source, create
from tests.spark.kafka.topics import SCHEMA, row
from tests.system.applications import Applications, all_phases

COLUMNS = ("id", "part", "name", "n")
FILE_BY_FILE = ("--round-rows", "1")


class Half:
    """A build on its way, in a folder of its own."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.source = Source(spark, str(folder / "source"), COLUMNS)
        self.target = str(folder / "target")
        self.apps = Applications(self.target)

    def plan(self, *options: str, **spec: Any) -> None:
        tables = {"name": "golden", "source": self.source.path, "target": self.target}
        self.apps.result("plan", "--spec", json.dumps({**tables, "key": ["id"], **spec}), *options)

    def killed(self, application: str, *options: str, commits: int) -> None:
        """The application, killed after so many of its commits; the first one is its claim."""
        outcome = self.apps.run(application, *options, crash=f"after_commit:{commits}:group")
        assert outcome is None, outcome

    def order(self, verb: str, *words: str) -> None:
        assert table_backfill([verb, self.target, *words]) == 0

    def change(self, new: int) -> None:
        """Epochs with every kind of change, and one of maintenance."""
        self.source.sql("UPDATE $table SET $name = concat($name, '+'), $part = ($part + 1) % 3 WHERE $id % 7 = 1")
        self.source.sql("DELETE FROM $table WHERE $id % 11 = 3")
        self.source.append(new, new + 20)
        self.source.sql("OPTIMIZE $table")


def in_snapshot(half: Half) -> None:
    """Two of four files are read, and the source has changed."""
    half.plan(select=["id", "upper(name) AS label", "n + 1 AS more"], where="part <> 2")
    half.killed("snapshot", *FILE_BY_FILE, commits=3)
    half.change(1000)


def in_epoch(half: Half) -> None:
    """An epoch that fits no round is applied in part."""
    half.plan()
    half.apps.result("snapshot")
    half.change(1000)
    half.source.sql("UPDATE $table SET $n = -1")
    half.killed("consume_log", "--max-lag-epochs", "0", "--round-rows", "60", commits=5)


def followed(half: Half) -> None:
    """Finished, and followed upstream for one round."""
    half.plan()
    half.change(1000)
    half.apps.result("snapshot", *all_phases(lag_epochs=0))
    half.change(2000)
    half.apps.result("upstream")


def arrangement(half: Half) -> None:
    """One position is a key within a range; changes before and after it are applied, others pend."""
    half.plan(strategy="arrangement")
    for start in (1000, 1100, 1200):
        half.source.append(start, start + 100)
    half.killed("snapshot", *FILE_BY_FILE, commits=5)
    half.source.sql("UPDATE $table SET $name = 'both sides' WHERE $id % 7 = 1")
    half.source.sql("DELETE FROM $table WHERE $id % 50 = 3")
    half.killed("snapshot", *FILE_BY_FILE, commits=2)
    half.change(2000)


def chain(half: Half) -> None:
    """Epochs are announced while the snapshot is read, slowly."""
    half.plan(strategy="chain", key=[])
    half.order("throttle", "5")
    control = ControlFolder.beside(half.target)
    me, new = control.draw_attempt({"task": "snapshot"}, floor=0), 1000
    # Claims of the lane and of the announcements, one file, and one announcement at least.
    with half.apps.process("snapshot", me, *FILE_BY_FILE, crash="after_commit:5:group") as process:
        while process.poll() is None:
            time.sleep(4)
            half.source.append(new, new + 5)
            new += 10


def chain_followed(half: Half) -> None:
    """The data has caught up with what was announced; finished, and followed upstream for one round."""
    half.plan(strategy="chain", key=[])
    half.source.append(1000, 1010)
    half.apps.result("snapshot", *all_phases(lag_epochs=0))
    half.source.append(1020, 1030)
    half.apps.result("upstream")


def lanes(half: Half) -> None:
    """One lane read a file; then there were two: the first one is done, the second one is not."""
    half.plan()
    half.killed("snapshot", *FILE_BY_FILE, commits=2)
    half.apps.result("snapshot", *FILE_BY_FILE, "--lanes", "2", "--lane", "0")
    half.killed("snapshot", *FILE_BY_FILE, "--lanes", "2", "--lane", "1", commits=2)
    half.change(1000)


def held_back(half: Half) -> None:
    """Throttled and paused; the resumption is ordered, and no barrier knows of it."""
    half.plan()
    half.order("throttle", "30", "--bytes", "1000000")
    half.killed("snapshot", *FILE_BY_FILE, commits=2)
    half.order("pause")
    half.killed("snapshot", *FILE_BY_FILE, commits=1)
    half.order("resume")
    half.order("throttle", "none")
    half.change(1000)


def cancelled(half: Half) -> None:
    """Cancelled in the snapshot, resumed by a new plan, cancelled again in the log."""
    half.plan()
    half.killed("snapshot", *FILE_BY_FILE, commits=2)
    half.apps.result("cancel")
    half.plan()
    half.apps.result("snapshot")
    half.change(1000)
    half.order("cancel", "--no-submit")
    half.apps.result("cancel")


def repaired(half: Half) -> None:
    """Somebody said too much of where the target stands; what differed is rewritten, and not verified yet."""
    half.plan()
    half.apps.result("snapshot", "--then", "consume_log --max-lag-epochs 0", "--then", "catch_up --max-lag-epochs 0")
    half.change(1000)
    half.apps.result("recover", "--epoch", str(half.source.head))
    outcome = half.apps.run("verify")
    assert outcome is not None and outcome["code"] == "VERIFICATION_FAILED", outcome
    half.apps.result("repair")
    half.change(2000)


CASES: tuple[Callable[[Half], None], ...] = (
    in_snapshot, in_epoch, followed, arrangement, chain, lanes, held_back, cancelled, repaired,
    chain_followed,
)  # fmt: skip


def of_topic(half: Half) -> None:
    """One partition is read, another one in part; some records are dead letters, some are not wanted."""
    with Broker(Path(half.target).parent / "broker") as broker:
        topic = Topic(broker.servers, "clicks")
        topic.create(partitions=3)
        topic.send(click(number) for number in range(90))
        land(topic, half.source.path, first=20)
        half.apps.environment[VARIABLE] = json.dumps({"bootstrap.servers": broker.servers})
        dead = f"dead_letters:{half.target}_dead"
        half.plan(
            strategy="source",
            key=[],
            select=["partition", "offset", "id", "upper(page) AS page"],
            where="id % 5 <> 0",
            topic={"name": topic.name, "value": "json:id BIGINT, page STRING", "undecodable": dead},
        )
        half.killed("snapshot", "--round-rows", "15", commits=3)
        half.apps.result("snapshot", "--then", "consume_log --max-lag-epochs 0")
        topic.send(click(number) for number in range(90, 99))
        land(topic, half.source.path, first=30)
        half.apps.result("catch_up", "--max-lag-epochs", "0", "--then", "verify", "--then", "finish")


def click(number: int) -> Record:
    value = json.dumps({"id": number, "page": f"/p{number % 10}"}).encode()
    return Record(value[:-1] if number % 13 == 7 else value, partition=number % 3)


def land(topic: Topic, table: str, first: int) -> None:
    """What an ingestion lands of the topic, from these offsets on."""
    found = [message for partition in topic.partitions() for message in topic.records(partition, first=first)]
    write_deltalake(table, pa.Table.from_pylist([row(message) for message in found], SCHEMA), mode="append")


def kinds(target: Path) -> Iterator[tuple[str, Any]]:
    """Every document of a build, after what it is."""
    for commit in sorted((target / "_delta_log").glob("*.json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            told = action.get("commitInfo", {}).get("userMetadata")
            if told is not None:
                yield in_log(json.loads(told))
    for file in sorted(Path(f"{target}.backfill").rglob("*.json")):
        document, folder = json.loads(file.read_text()), file.parent.name
        if folder == "plans":  # copies of what is in the log
            continue
        yield (f"{folder[:-1]}_{document['verb']}" if "verb" in document else f"{folder[:-1]}{words(file)}"), document


def words(file: Path) -> str:
    """What the file of an attempt is, beside its number."""
    return "".join(f"_{word}" for word in file.stem.split(".") if word.isalpha())


def in_log(document: dict[str, Any]) -> tuple[str, Any]:
    """What a document in the log of a target is."""
    if "airflow_backfill_plan" in document:
        return f"plan_{document['spec']['strategy']}", document
    if "airflow_backfill_seen" in document:
        return f"announcement_{document['kind']}", document
    if "airflow_backfill_fence" in document:
        return "fence", document
    in_part = document["event"] == "epochs" and any("parts" in some for some in document["positions"])
    return f"record_{document['event']}{'_in_part' if in_part else ''}", document


def keep(target: Path, folder: Path) -> None:
    """One document of each kind, as it was written: the longest one says most."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, document in kinds(target):
        file, text = folder / f"{kind}.json", json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False)
        if not file.exists() or len(file.read_text()) <= len(text):
            file.write_text(text + "\n")


def session() -> SparkSession:
    """Writes the sources."""
    builder = SparkSession.builder.master("local[2]")
    delta = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    for name, value in {**quick.confs(), **delta, "spark.ui.enabled": "false", "spark.driver.memory": "1g"}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(name: str, *cases: str) -> None:
    """Make the cases with these names; all of them, if none is named."""
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    for case in (*CASES, of_topic):
        if cases and case.__name__ not in cases:
            continue
        with locked() as place:
            half = Half(spark, place / case.__name__)
            if case in CASES:
                create(half.source)
            case(half)
            if case in CASES:
                pack(place / case.__name__, ARCHIVES / name / f"{case.__name__}.tar.gz")
            keep(Path(half.target), DOCUMENTS / name)
            table_backfill(["status", half.target])


if __name__ == "__main__":
    main(*sys.argv[1:])
