"""A DynamoDB on this machine (moto), and the settings of Delta's ``S3DynamoDBLogStore`` for it.

Delta's jar (``io.delta:delta-storage-s3-dynamodb:4.4.0``) and what it needs of AWS's first SDK (``aws-java-sdk-core``,
``aws-java-sdk-dynamodb``, ``jmespath-java``, all 1.12.262, ``ion-java`` 1.0.2, ``jackson-dataformat-cbor`` 2.18.2) are
not among the locked jars. The variable ``DYNAMODB_JARS`` names a folder that has them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ledger.moto_server import moto_server

JARS = os.environ.get("DYNAMODB_JARS", "")
REGIONS = """<XML><Regions><Region><Name>us-east-1</Name><Domain>amazonaws.com</Domain><Endpoint>
<ServiceName>dynamodb</ServiceName><Http>false</Http><Https>true</Https><Hostname>{address}</Hostname>
</Endpoint></Region></Regions></XML>"""


@contextmanager
def dynamodb(folder: Path) -> Iterator[dict[str, str]]:
    """The service while the block runs, and what Spark's settings add to those of S3."""
    with moto_server(encrypted=True) as address:
        regions = folder / "regions.xml"
        regions.write_text(REGIONS.format(address=address))
        # The first SDK has no other way to an endpoint of one's own where its user, here Delta, offers none.
        java = (
            f"-Dcom.amazonaws.regions.RegionUtils.fileOverride={regions} -Dcom.amazonaws.sdk.disableCertChecking=true"
        )
        yield {
            "spark.driver.extraJavaOptions": f"{java}{regions}",
            "spark.jars": ",".join(map(str, sorted(Path(JARS).glob("*.jar")))),
            "spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore",
        }
