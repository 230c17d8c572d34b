"""Decoders as their users ship them: a class in a jar, functions in a zip with entry points."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pyspark

JAVA = """
import org.apache.spark.sql.api.java.UDF1;

public class Length implements UDF1<byte[], Long> {
    public Long call(byte[] raw) {
        return raw == null || raw.length == 0 ? null : Long.valueOf(raw.length);
    }
}
"""


def java_decoder(folder: Path) -> Path:
    """A jar with the class ``Length``: the number of bytes, null for none."""
    (folder / "Length.java").write_text(JAVA)
    spark = Path(pyspark.__file__).parent / "jars" / "*"
    subprocess.run(["javac", "-cp", spark, "-d", folder, folder / "Length.java"], check=True)
    jar = folder / "length.jar"
    with zipfile.ZipFile(jar, "w") as made:
        made.write(folder / "Length.class", "Length.class")
    return jar


def package(folder: Path, name: str, entries: str, module: str) -> Path:
    """A package as a zip, as ``--py-files`` takes it."""
    archive = folder / f"{name}.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr(f"{name}.py", module)
        made.writestr(f"{name}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        made.writestr(f"{name}-1.dist-info/entry_points.txt", f"[airflow_backfill.decoders]\n{entries}\n")
    return archive
