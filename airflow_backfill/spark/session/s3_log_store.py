"""Delta's log store for ``s3a:`` that several drivers may use, without DynamoDB.

Delta's own one looks whether a commit exists and then overwrites it: it asks S3A for ``create(path, overwrite=false)``,
which looks, too, and never makes the write itself conditional (Hadoop 3.5). S3A can: ``createFile`` with the option
``fs.option.create.conditional.overwrite`` sends ``If-None-Match: *``, since Hadoop 3.4.2. This log store asks for that.
Where S3A cannot (Hadoop 3.4.1, which Spark 4.0 carries), it sends the same request itself, through S3A's client. It
writes a commit only if the one before is there: S3 makes a folder for any file, so an attempt that sleeps through the
drop of its target would begin a log with its next commit.

The files beside a target are created through it, too, also where commits go through another log store: such as Delta's
``S3DynamoDBLogStore``, which takes each numbered file for a commit and asks for the one before.

A log store is a Java class. Its source is compiled by Janino, the compiler that Spark carries for its own queries.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from airflow_backfill.ledger.hadoop_store import S3_LOG_STORE, S3A
from airflow_backfill.ledger.java_error import innermost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

SETTING = "spark.delta.logStore.s3a.impl"

SOURCE = """
package airflow_backfill;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
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
import org.apache.hadoop.fs.s3a.AWSServiceIOException;
import org.apache.hadoop.fs.s3a.Listing;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3AUtils;
import org.apache.hadoop.fs.s3a.S3ListRequest;
import software.amazon.awssdk.awscore.AwsRequestOverrideConfiguration;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Request;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;
import software.amazon.awssdk.utils.builder.ToCopyableBuilder;

public final class S3LogStore extends io.delta.storage.S3SingleDriverLogStore {
  private static final String CONDITION = "fs.option.create.conditional.overwrite";

  public S3LogStore(Configuration conf) { super(conf); }

  public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
    if (overwrite.booleanValue()) {
      super.write(path, actions, overwrite, conf);
      return;
    }
    S3AFileSystem s3 = (S3AFileSystem) path.getFileSystem(conf);
    follow(s3, path, conf);
    try {
      if (s3.hasPathCapability(path, CONDITION)) create(s3, path, actions);
      else put(s3, path, actions);
    } catch (RemoteFileChangedException error) {
      // S3 said 412: the file exists. It is ours if the answer to an earlier try was lost; the log tells.
      throw exists(path, error);
    } catch (AWSServiceIOException error) {
      // S3 said 409: it met another request for this file, which may have created it.
      if (error.statusCode() != 409 || !appears(s3, path)) throw error;
      throw exists(path, error);
    }
  }

  private static IOException exists(Path path, IOException why) {
    FileAlreadyExistsException exists = new FileAlreadyExistsException(path.toString());
    exists.initCause(why);
    return exists;
  }

  private static boolean appears(S3AFileSystem s3, Path path) throws IOException {
    for (int look = 0; look < 5; look++) {
      if (s3.exists(path)) return true;
      try {
        Thread.sleep(100L << look);
      } catch (InterruptedException error) {
        throw new InterruptedIOException(error.getMessage());
      }
    }
    return false;
  }

  // Delta numbers a commit when its work begins. If the table was dropped since, the commit would be there alone.
  private void follow(S3AFileSystem s3, Path path, Configuration conf) throws IOException {
    Path log = path.getParent();
    boolean first = path.getName().matches("0{20}.json");
    if (first || !log.getName().equals("_delta_log") || !path.getName().matches("[0-9]{20}.json")) return;
    long version = Long.parseLong(path.getName().substring(0, 20)) - 1;
    String before = String.format("%020d", new Object[] {Long.valueOf(version)});
    if (s3.exists(new Path(log, before + ".json"))) return;
    Iterator left = listFrom(new Path(log, before), conf);
    boolean checkpoint = left.hasNext() && ((FileStatus) left.next()).getPath().getName().startsWith(before);
    if (!checkpoint) throw new FileNotFoundException("No commit before " + path);
  }

  private static void create(S3AFileSystem s3, Path path, Iterator actions) throws IOException {
    FSDataOutputStreamBuilder file = s3.createFile(path);
    file.overwrite(false);
    file.must(CONDITION, true);
    FSDataOutputStream out = (FSDataOutputStream) file.build();
    boolean whole = false;
    try {
      writeLines(out, actions);
      whole = true;
    } finally {
      if (!whole) out.abort();  // to close it would publish half a commit
    }
    out.close();
  }

  // S3A's own request, with its encryption and timeout, and the condition that this S3A does not know.
  private static void put(S3AFileSystem s3, Path path, Iterator actions) throws IOException {
    ByteArrayOutputStream lines = new ByteArrayOutputStream();
    writeLines(lines, actions);
    PutObjectRequest request = (PutObjectRequest) s3.getRequestFactory()
      .newPutObjectRequestBuilder(s3.pathToKey(path), null, lines.size(), false).build();
    AwsRequestOverrideConfiguration.Builder with = request.overrideConfiguration().isPresent()
      ? ((AwsRequestOverrideConfiguration) request.overrideConfiguration().get()).toBuilder()
      : AwsRequestOverrideConfiguration.builder();
    with.putHeader("If-None-Match", "*");
    // The class has several methods toBuilder(). Whether Janino accepts a call depends on the order in which Java names
    // them, which differs from start to start. The interface has one.
    PutObjectRequest.Builder conditional = (PutObjectRequest.Builder) ((ToCopyableBuilder) request).toBuilder();
    conditional.overrideConfiguration(with.build());
    try {
      s3.getS3AInternals().getAmazonS3Client("conditional put")
        .putObject((PutObjectRequest) conditional.build(), RequestBody.fromBytes(lines.toByteArray()));
    } catch (SdkException error) {
      throw S3AUtils.translateException("put", path, error);
    }
  }

  private static void writeLines(OutputStream out, Iterator lines) throws IOException {
    while (lines.hasNext()) out.write(((String) lines.next() + "\\n").getBytes(StandardCharsets.UTF_8));
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
    """Make the class known to Java, if the session has S3A. The second time does nothing."""
    loader = _loader(spark)
    if not _has(loader, S3A) or _has(loader, S3_LOG_STORE):
        return
    try:
        define(spark, SOURCE)
    except Py4JError as error:
        # Nothing is lost yet: whoever writes to s3a: is told that the class is missing.
        log.warning("%s does not fit to this S3A: %s", S3_LOG_STORE, innermost(error))


def define(spark: SparkSession, source: str) -> None:
    """Compile the classes of a Java source, and make them known to the driver's Java."""
    jvm: Any = spark.sparkContext._jvm
    loader = _loader(spark)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(source)
    folder = jvm.org.apache.spark.util.Utils.createTempDir()  # Spark removes it when its Java ends
    for name, code in compiler.getBytecodes().items():
        file = Path(folder.getPath(), *name.split(".")).with_suffix(".class")
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(code)
    loader.addURL(folder.toURI().toURL())


def _loader(spark: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _has(loader: Any, name: str) -> bool:
    try:
        loader.loadClass(name)
    except Py4JError:
        return False
    return True
