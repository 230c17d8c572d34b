"""Delta's log store for ``s3a:`` that several drivers may use, without DynamoDB.

Delta's own one looks whether a commit exists and then overwrites it: it asks S3A for ``create(path, overwrite=false)``,
which looks, too, and never makes the write itself conditional (Hadoop 3.5). S3A can: ``createFile`` with the option
``fs.option.create.conditional.overwrite`` sends ``If-None-Match: *``, since Hadoop 3.4.2. This log store asks for that.
Older versions refuse the option, so with them nothing is written at all.

A log store is a Java class. Its source is compiled by Janino, the compiler that Spark carries for its own queries.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from airflow_backfill.ledger.java_error import innermost
from airflow_backfill.spark.session.application_conf import application_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

CLASS = "airflow_backfill.S3LogStore"
SETTING = "spark.delta.logStore.s3a.impl"

SOURCE = """
package airflow_backfill;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.s3a.Listing;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3AUtils;
import org.apache.hadoop.fs.s3a.S3ListRequest;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Request;

public final class S3LogStore extends io.delta.storage.S3SingleDriverLogStore {
  public S3LogStore(Configuration conf) { super(conf); }

  public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
    if (overwrite.booleanValue()) {
      super.write(path, actions, overwrite, conf);
      return;
    }
    FSDataOutputStreamBuilder file = path.getFileSystem(conf).createFile(path);
    file.overwrite(false);
    file.must("fs.option.create.conditional.overwrite", true);
    FSDataOutputStream out = (FSDataOutputStream) file.build();
    boolean whole = false;
    try {
      while (actions.hasNext()) out.write(((String) actions.next() + "\\n").getBytes(StandardCharsets.UTF_8));
      whole = true;
    } finally {
      if (!whole) out.abort();  // to close it would publish half a commit
    }
    try {
      out.close();
    } catch (RemoteFileChangedException error) {
      // S3 said 412: the file exists. It is ours if the answer to an earlier try was lost; the log tells.
      FileAlreadyExistsException exists = new FileAlreadyExistsException(path.toString());
      exists.initCause(error);
      throw exists;
    }
  }

  // Delta's own listing from a file on does not work with Hadoop 3.5 (NoSuchMethodError); the other one lists all.
  public Iterator listFrom(Path path, Configuration conf) throws IOException {
    S3AFileSystem s3 = (S3AFileSystem) path.getFileSystem(conf);
    Path folder = path.getParent();
    String name = path.getName();
    int last = name.length() - 1;
    String before = name.substring(0, last) + (char) (name.charAt(last) - 1);  // S3 starts after, Delta from
    ListObjectsV2Request.Builder request = ListObjectsV2Request.builder();
    request.bucket(s3.getBucket()).delimiter("/").prefix(s3.pathToKey(folder) + "/");
    request.startAfter(s3.pathToKey(folder) + "/" + before);
    TreeMap found = new TreeMap();
    try {
      RemoteIterator files = s3.getListing().createFileStatusListingIterator(
        folder, S3ListRequest.v2((ListObjectsV2Request) request.build()), S3AUtils.ACCEPT_ALL,
        new Listing.AcceptAllButSelfAndS3nDirs(folder), s3.getActiveAuditSpan());
      while (files.hasNext()) {
        FileStatus file = (FileStatus) files.next();
        if (file.getPath().getName().compareTo(name) >= 0) found.put(file.getPath().getName(), file);
      }
    } catch (SdkException error) {
      throw S3AUtils.translateException("listFrom", path, error);
    }
    if (found.isEmpty() && !s3.exists(folder)) throw new FileNotFoundException("No such folder: " + folder);
    return found.values().iterator();
  }
}
"""


def install(spark: SparkSession) -> None:
    """Make the class known to Delta, if the session uses it and has S3A. The second time does nothing."""
    jvm: Any = spark.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    used = application_conf(spark).get(SETTING, None) == CLASS
    if not used or not _has(loader, "org.apache.hadoop.fs.s3a.S3AFileSystem") or _has(loader, CLASS):
        return
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    try:
        compiler.cook(SOURCE)
    except Py4JError as error:
        # Nothing is lost yet: whoever writes to s3a: is told that the class is missing.
        log.warning("%s does not fit to this S3A: %s", CLASS, innermost(error))
        return
    folder = jvm.org.apache.spark.util.Utils.createTempDir()  # Spark removes it when its Java ends
    for name, code in compiler.getBytecodes().items():
        file = Path(folder.getPath(), *name.split(".")).with_suffix(".class")
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(code)
    loader.addURL(folder.toURI().toURL())


def _has(loader: Any, name: str) -> bool:
    try:
        loader.loadClass(name)
    except Py4JError:
        return False
    return True
