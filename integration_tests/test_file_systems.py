"""Which file systems FileSink takes: real HDFS and S3, behind names and mounts that do not say what they lead to."""

import logging
from types import SimpleNamespace

import pytest
from pyspark.java_gateway import launch_gateway

from kafka_direct.errors import ConfigError, StoreUnavailable
from kafka_direct.sinks import FileSink
from kafka_direct.sinks.files import filesystem
from kafka_direct.testing import LocalHdfs, LocalS3
from kafka_direct.testing.jar import s3a_jars

MOUNTS = "fs.viewfs.mounttable"


@pytest.fixture(scope="module")
def hdfs():
    with LocalHdfs() as store:
        yield store


@pytest.fixture(scope="module")
def check(hdfs, tmp_path_factory):
    """Check a path as a driver does, which has S3A, a view of three stores, and what a test sets."""
    gateway = launch_gateway(SimpleNamespace(getAll=lambda: [("spark.jars", s3a_jars()), ("spark.log.level", "OFF")]))
    with LocalS3() as s3:
        settings = {key.removeprefix("spark.hadoop."): value for key, value in s3.spark_conf().items()} | {
            "fs.lake.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "fs.s3a.endpoint": s3.endpoint,
            f"{MOUNTS}.all.link./s3": f"{s3.uri}/below",
            f"{MOUNTS}.all.link./lake": f"{s3.uri}/below".replace("s3a:", "lake:"),
            f"{MOUNTS}.all.link./hdfs": hdfs.uri,
            f"{MOUNTS}.all.link./disk": tmp_path_factory.mktemp("disk").as_uri(),
            f"{MOUNTS}.outer.link./view": "viewfs://all/s3",
        }

        def run(path, **more):
            configuration = gateway.jvm.org.apache.hadoop.conf.Configuration()
            for key, value in {**settings, **more}.items():
                configuration.set(key, value)
            java = SimpleNamespace(hadoopConfiguration=lambda: configuration)
            context = SimpleNamespace(_gateway=gateway, _jvm=gateway.jvm, _jsc=java)
            filesystem.check_class(context, path)
            filesystem.check(context, path)

        run.s3, run.hdfs = s3.uri, hdfs.uri
        yield run
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def refused(check, path, **more):
    with pytest.raises(ConfigError, match="cannot rename a folder at once") as error:
        check(path, **more)
    return str(error.value)


def test_what_leads_to_an_object_store_is_refused(check):
    """By a default, by another scheme for S3A, by a mount, by a mount of either, and by a view of a view."""
    assert refused(check, f"{check.s3}/orders").startswith(f"{check.s3}/orders is on an object store")
    default = {"fs.defaultFS": check.s3}
    assert refused(check, "/orders", **default).startswith("/orders leads to s3a: and is on an object store")
    lake = f"{check.s3}/orders".replace("s3a:", "lake:")
    for path in (lake, "viewfs://all/s3/orders", "viewfs://all/lake/a/b", "viewfs://outer/view/orders"):
        assert f"{path} leads to s3a:" in refused(check, path)
    assert "leads to s3a:" in refused(check, "/s3/orders", **{"fs.defaultFS": "viewfs://all"})


def test_what_leads_to_a_file_system_is_taken(check, caplog):
    """Nothing is said about a disk or HDFS, whatever lies over them."""
    with caplog.at_level(logging.WARNING):
        for path in (f"{check.hdfs}/orders", "viewfs://all/hdfs/orders", "viewfs://all/disk/orders", "/orders"):
            check(path)
        check("/orders", **{"fs.defaultFS": check.hdfs})
    assert not caplog.records


def test_what_hadoop_does_not_know_is_refused(check):
    """An object store is named as such, as its jar would not help."""
    assert refused(check, "gs://bucket/x").startswith("gs://bucket/x is on an object store")
    with pytest.raises(ConfigError, match=r"no file system for abfs://.*spark\.jars\.packages"):
        check("abfs://c@account.dfs.core.windows.net/x")
    with pytest.raises(ConfigError, match="no file system for nothing://x/y"):
        check("nothing://x/y")


def test_what_is_not_known_is_said_at_the_start(check, caplog):
    """FTP renames a folder somehow."""
    with caplog.at_level(logging.WARNING), pytest.raises(StoreUnavailable):
        check("viewfs://none/x")
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        check("ftp://user:secret@127.0.0.1/orders")
    assert [record.getMessage()[:58] for record in caplog.records] == [
        "it is not known whether the ftp: file system of ftp://127."
    ]


@pytest.mark.parametrize("kind", ["hdfs", "a mount"])
def test_files_on_hdfs_appear_together(spark, hdfs, kind):
    """A batch is published whole, and its replay takes its place, as on a disk."""
    settings = {f"spark.hadoop.{MOUNTS}.real.link./data": f"{hdfs.uri}/mounted", **hdfs.spark_conf()}
    sc = spark(settings)
    sink = FileSink(f"{hdfs.uri}/orders" if kind == "hdfs" else "viewfs://real/data/orders")
    path = sc._jvm.org.apache.hadoop.fs.Path(sink.path)
    files = path.getFileSystem(sc._jsc.hadoopConfiguration())
    for values in (["a", "b"], ["c"]):
        with sink.batch(7) as folder:
            sc.parallelize(values, 2).saveAsTextFile(folder)
        assert sorted(sc.textFile(f"{sink.path}/*").collect()) == values
        assert [status.getPath().getName() for status in files.listStatus(path)] == ["batch=7"]
