"""A DynamoDB on this machine (moto), and the settings of Delta's ``S3DynamoDBLogStore`` for it.

Delta's jar (``io.delta:delta-storage-s3-dynamodb:4.4.0``) and what it needs of AWS's first SDK (``aws-java-sdk-core``,
``aws-java-sdk-dynamodb``, ``jmespath-java``, all 1.12.262, ``ion-java`` 1.0.2, ``jackson-dataformat-cbor`` 2.18.2) are
not among the locked jars. The variable ``DYNAMODB_JARS`` names a folder that has them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

JARS = os.environ.get("DYNAMODB_JARS", "")
REGIONS = """<XML><Regions><Region><Name>us-east-1</Name><Domain>amazonaws.com</Domain><Endpoint>
<ServiceName>dynamodb</ServiceName><Http>false</Http><Https>true</Https><Hostname>{address}</Hostname>
</Endpoint></Region></Regions></XML>"""


@contextmanager
def dynamodb(folder: Path) -> Iterator[dict[str, str]]:
    """The service while the block runs, and what Spark's settings add to those of S3."""
    server = make_server("127.0.0.1", 0, _OneAtATime(), threaded=True, ssl_context="adhoc")
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    regions = folder / "regions.xml"
    regions.write_text(REGIONS.format(address=f"127.0.0.1:{server.server_port}"))
    # The first SDK has no other way to an endpoint of one's own where its user, here Delta, offers none.
    java = f"-Dcom.amazonaws.regions.RegionUtils.fileOverride={regions} -Dcom.amazonaws.sdk.disableCertChecking=true"
    try:
        yield {
            "spark.driver.extraJavaOptions": java,
            "spark.jars": ",".join(map(str, sorted(Path(JARS).glob("*.jar")))),
            "spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore",
        }
    finally:
        server.shutdown()
        thread.join()


class _OneAtATime:
    """moto looks at a condition and then writes; DynamoDB does both at once."""

    def __init__(self) -> None:
        self._service, self._lock = DomainDispatcherApplication(create_backend_app), Lock()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        with self._lock:
            return [b"".join(self._service(environ, start_response))]
