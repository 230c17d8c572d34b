"""The pictures in docs/images. ``python -m tests.plugin.pictures FOLDER`` needs the packages chromium and pngquant of
Debian, and neither Spark nor Java.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.plugin.airflow_process import ROOT, AirflowProcess, chromium

NAMES = ["orders", "lineitem", "customers", "stock", "suppliers", "parcels", "events", "returns", "clicks"]
IMAGES = ROOT / "docs" / "images"


def main(place: Path) -> None:
    if missing := [name for name in ("chromium", "pngquant") if shutil.which(name) is None]:
        sys.exit(f"{' and '.join(missing)} must be on PATH: apt install {' '.join(missing)}")
    airflow = AirflowProcess(place, NAMES)
    airflow.run("db", "migrate")
    airflow.run("dags", "reserialize")
    airflow.run("-m", "tests.plugin.sights", str(place))
    with airflow.serving("api-server"), chromium(airflow) as opened:

        def build(name: str, user: str = "ada", **options: Any) -> Any:
            key = sha256(f"{place}/marts/{name}".encode()).hexdigest()[:16]
            page = opened(user, f"/plugin/table-backfills/shop_{name}/{key}", **options)
            page.get_by_role("heading", name=name).wait_for()
            return page

        overview = opened("ada", "/plugin/table-backfills", height=880)
        overview.get_by_role("link", name="stock").wait_for()
        taken(overview, "overview")
        narrow = opened("ada", "/plugin/table-backfills", width=420, height=880, dark=True)
        narrow.get_by_role("link", name="stock").wait_for()
        taken(narrow, "overview-narrow")
        taken(build("orders", height=1180), "build")
        taken(build("orders", height=1180, dark=True), "build-dark")
        differs = build("parcels", height=900)
        differs.get_by_role("cell", name="id=1042").wait_for()
        differs.get_by_role("region", name="Proof").scroll_into_view_if_needed()
        taken(differs, "proof-failed")
        throttle = build("lineitem", height=720, dark=True)
        throttle.get_by_role("button", name="Throttle").click()
        throttle.get_by_label("Rows per second").fill("90000")
        taken(throttle, "throttle")
        drop = build("stock", width=420, height=900)
        drop.get_by_role("button", name="Cancel").click()
        drop.get_by_role("checkbox").check()
        taken(drop, "cancel-narrow")
        answer = build("customers", height=700)
        answer.get_by_role("button", name="Answer of attempt").click()
        answer.get_by_text("id=42 in").wait_for()
        answer.get_by_role("region", name="Why a row").scroll_into_view_if_needed()
        taken(answer, "explained")
        viewer = build("customers", user="vera", height=900)
        taken(viewer, "viewer")


def taken(page: Any, name: str) -> None:
    page.wait_for_timeout(1500)  # bars grow for a moment
    IMAGES.mkdir(exist_ok=True)
    file = IMAGES / f"page-{name}.png"
    page.screenshot(path=file)
    subprocess.run(["pngquant", "--force", "--ext", ".png", "96", str(file)], check=True)
    print(f"{file.name}: {os.path.getsize(file) // 1000} kB")
    page.context.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="shop-") as folder:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder))
