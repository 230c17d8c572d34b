"""The files that a Spark application of this package needs: its entry point, and the package as one zip."""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path

import airflow_backfill
from airflow_backfill.own_folder import new_file, own_folder

ZIPPED = ("core", "ledger", "spark")
_PACKAGE = Path(airflow_backfill.__file__).parent


def entry_points() -> str:
    """The folder of the entry points on this machine: in the installed package, or beside it in a checkout."""
    installed = _PACKAGE / "spark_apps"
    return str(installed if installed.is_dir() else _PACKAGE.parent / "spark_apps")


def package_zip() -> str:
    """The path of a zip with the package, for ``--py-files``. Its name contains a hash of its content."""
    data = _zipped()
    name = f"airflow_backfill-{airflow_backfill.__version__}-{hashlib.sha256(data).hexdigest()[:12]}.zip"
    path = own_folder() / name
    if not path.exists():  # or no longer: a task may last for weeks, and others delete old temporary files
        new_file(data).replace(path)
    return str(path)


@cache
def _zipped() -> bytes:
    files = [_PACKAGE / "__init__.py"]
    files += sorted(file for folder in ZIPPED for file in (_PACKAGE / folder).rglob("*.py"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            # A fixed date, so that the same package gives the same bytes.
            entry = zipfile.ZipInfo(str(file.relative_to(_PACKAGE.parent)), (1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
