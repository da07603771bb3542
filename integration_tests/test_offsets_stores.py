"""`kafka-direct` on checkpoints in HDFS and S3: each verb, with and without a JVM, and no secret in what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_direct.cli.jvm import Jvm
from kafka_direct.hadoop import HadoopStores
from kafka_direct.offsets import Batch, OffsetLog, OffsetRange
from kafka_direct.offsets.store.files import LogFiles
from kafka_direct.testing import LocalHdfs, LocalS3
from kafka_direct.testing.jar import s3a_jars

KEY, SECRET = "AKIA0123KEY", "hunter2/hunter2"
COMMAND = [sys.executable, "-c", "from kafka_direct.cli import main; main(prog_name='kafka-direct')"]


class Place:
    """A store, and what a command line needs for it."""

    def __init__(self, store, settings):
        self.store = store
        self.settings = {
            key.removeprefix("spark.hadoop."): value for key, value in settings.items() if key != "spark.jars"
        }
        self.env = {**os.environ, "S3_KEY": KEY, "S3_SECRET": SECRET}
        if "spark.jars" in settings:
            self.env["PYSPARK_SUBMIT_ARGS"] = f"--jars {settings['spark.jars']} pyspark-shell"
            self.settings |= {"fs.s3a.access.key": "env:S3_KEY", "fs.s3a.secret.key": "env:S3_SECRET"}
        self.flags = [word for key, value in self.settings.items() for word in ("--hadoop-conf", f"{key}={value}")]

    def run(self, *arguments, flags=None, code=0, env=None):
        given = [*map(str, arguments), *(self.flags if flags is None else flags)]
        done = subprocess.run(
            [*COMMAND, *given],
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert KEY not in done.stdout + done.stderr
        assert SECRET not in done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def jvm():
    """A JVM of its own with the jars of S3A: the session's has none."""
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {s3a_jars()} pyspark-shell"
    try:
        started = Jvm()
    finally:
        del os.environ["PYSPARK_SUBMIT_ARGS"]
        if before is not None:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before
    yield started
    started.close()


@pytest.fixture(scope="module", params=[LocalHdfs, LocalS3])
def place(request):
    with request.param() as store:
        yield Place(store, store.spark_conf())


@pytest.fixture
def checkpoint(place, jvm, ten):
    """A checkpoint of a direct stream that has read five records of each partition, with Spark's files beside it."""
    settings = {**place.settings, "fs.s3a.access.key": KEY, "fs.s3a.secret.key": SECRET}
    stores = HadoopStores(jvm.gateway, jvm.configuration(settings))
    uri = f"{place.store.uri}/{ten}"
    log = OffsetLog(uri, "orders", locate=stores.locate)
    log.plan(Batch(id=0, ranges=tuple(OffsetRange(ten, n, 0, 5) for n in range(2)), times=(1000,)))
    log.commit(0)
    files = LogFiles.open(uri, locate=stores.locate)
    for name in ("checkpoint-1000", "checkpoint-1000.bk", "checkpoint-2000", "temp", "checkpoint-x", "mine"):
        files.replace(name, "")
    yield uri, files
    stores.close()


def test_each_verb(place, checkpoint, kafka, ten, tmp_path):
    """Show, reset, export and import say how the store was reached, and write the log that a driver reads."""
    uri, _ = checkpoint
    servers = ("--bootstrap-servers", kafka.bootstrap_servers)

    shown = place.run("offsets", "show", "--checkpoint", uri, *servers)
    assert shown.stdout.startswith(f"{uri}, through Hadoop in a JVM\nstream orders in {uri}/kafka_direct/orders\n")
    assert "WARN" not in shown.stderr
    facts = json.loads(place.run("offsets", "show", "--checkpoint", uri, "--output", "json").stdout)
    assert (facts[0]["through"], facts[0]["partitions"][0]["committed"]) == ("hadoop", 5)

    backup = tmp_path / "kept.csv"
    reset = ["--all-topics", "--to-offset", "2", "--execute", "--backup", backup]
    done = place.run("offsets", "reset", "--checkpoint", uri, *servers, *reset)
    assert f"batch 1 of stream orders in {uri}" in done.stderr
    assert "two writers" not in done.stderr, "both stores create exclusively"
    assert f"--checkpoint {uri}" in done.stderr.partition("To undo it: ")[2]
    export = ("offsets", "export", "--checkpoint", uri)
    assert place.run(*export).stdout == f"{ten},0,2\n{ten},1,2\n"
    place.run("offsets", "import", "--checkpoint", uri, *servers, "--from-file", backup, "--execute",
              "--backup", "/dev/null")  # fmt: skip
    assert place.run(*export).stdout == f"{ten},0,5\n{ten},1,5\n"
    new = ("--checkpoint", f"{uri}/new", "--stream", "orders")
    place.run("offsets", "import", *new, *servers, "--from-file", backup, "--create", "--execute")
    assert place.run("offsets", "export", *new).stdout == f"{ten},0,5\n{ten},1,5\n"


def test_forget_code(place, checkpoint):
    """Only Spark's files go; the log stays. Without --execute nothing goes."""
    uri, files = checkpoint
    program = ["checkpoint-1000", "checkpoint-1000.bk", "checkpoint-2000", "temp"]

    dry = place.run("checkpoint", "forget-code", "--checkpoint", uri)
    assert sorted(dry.stdout.split()) == program
    assert "windows and states hold is lost" in dry.stderr
    assert sorted(files.names()) == sorted([*program, "checkpoint-x", "mine", "kafka_direct/"])
    place.run("checkpoint", "forget-code", "--checkpoint", uri, "--execute")

    assert sorted(files.names()) == ["checkpoint-x", "kafka_direct/", "mine"]
    assert place.run("offsets", "export", "--checkpoint", uri).stdout.count(",5\n") == 2


def test_without_a_jvm(place, checkpoint, kafka, ten, tmp_path):
    """S3 is shown and exported through pyarrow, and moved only with --force; HDFS needs a JVM, in one sentence."""
    uri, _ = checkpoint
    if uri.startswith("hdfs:"):
        done = place.run("offsets", "show", "--checkpoint", uri, "--no-jvm", flags=[], code=2)
        assert "a hdfs: URI cannot be reached without Spark's JVM" in done.stderr
        return
    endpoint = place.store.endpoint.removeprefix("http://")
    bare = f"s3://{KEY}:{SECRET.replace('/', '%2F')}@{uri.removeprefix('s3a://')}"
    bare += f"?scheme=http&endpoint_override={endpoint}"

    def run(verb, *arguments, code=0):
        return place.run("offsets", verb, "--checkpoint", bare, "--no-jvm", *arguments, flags=[], code=code)

    shown = run("show").stdout
    assert shown.startswith(f"{uri.replace('s3a', 's3')}, through pyarrow, without a JVM\n")
    assert run("export").stdout == f"{ten},0,5\n{ten},1,5\n"
    reset = ["--all-topics", "--to-offset", "2", "--execute", "--bootstrap-servers", kafka.bootstrap_servers]
    refused = run("reset", *reset, code=3)
    assert "pyarrow cannot refuse a file that another driver writes" in refused.stderr
    forced = run("reset", *reset, "--force", "--backup", tmp_path / "kept.csv")
    assert "note: " in forced.stderr
    assert "reached without a JVM" in forced.stderr
    assert "secrets of the command are left out" in forced.stderr
    assert run("export").stdout == f"{ten},0,2\n{ten},1,2\n"


def test_a_login_in_an_s3_uri(place, checkpoint, ten):
    """The JVM takes it as pyarrow does, and shows nothing of it."""
    uri, _ = checkpoint
    if uri.startswith("hdfs:"):
        refused = place.run("offsets", "show", "--checkpoint", uri.replace("//", f"//{KEY}:{SECRET}@"), code=2)
        assert "has no user or password" in refused.stderr
        return
    settings = {key: value for key, value in place.settings.items() if not value.startswith("env:")}
    flags = [word for key, value in settings.items() for word in ("--hadoop-conf", f"{key}={value}")]

    exported = place.run(
        "offsets", "export", "--checkpoint", uri.replace("s3a://", f"s3://{KEY}:{SECRET}@"), flags=flags
    )
    assert exported.stdout == f"{ten},0,5\n{ten},1,5\n"


def test_an_error_of_the_store(place, checkpoint):
    """One sentence, without a secret, and the JVM has ended."""
    uri, _ = checkpoint
    elsewhere = "s3a://another-bucket/x" if uri.startswith("s3a") else "hdfs://127.0.0.1:1/x"
    done = place.run("offsets", "show", "--checkpoint", elsewhere, code=1)

    assert done.stderr.count("Error: ") == 1
    assert elsewhere in done.stderr
    assert not [path for path in Path("/proc").glob("[0-9]*/environ") if b"S3_SECRET=hunter2" in _environ(path)]


def _environ(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


QUERY = """
import os, sys
from pyspark.sql import SparkSession
servers, topic, checkpoint, *settings = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
for setting in settings:
    key, _, value = setting.partition("=")
    builder = builder.config(key, value)
stream = builder.getOrCreate().readStream.format("kafka_direct").option("subscribe", topic)
stream = stream.option("kafka.bootstrap.servers", servers).option("startingOffsets", "earliest").load()
def take(frame, batch_id):
    print(*[f"read {row.partition} {row.offset}" for row in frame.select("partition", "offset").collect()], sep="\\n")
query = stream.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).trigger(availableNow=True)
query.start().awaitTermination()
"""


def test_spark_goes_on_with_a_query_that_was_reset(place, kafka, ten):
    """Spark reads what the reset wrote on the store, and the query reads exactly from there."""
    checkpoint = f"{place.store.uri}/query-{ten}"
    conf = [f"{key}={value}" for key, value in place.store.spark_conf().items()]

    def run():
        command = [sys.executable, "-c", QUERY, kafka.bootstrap_servers, ten, checkpoint, *conf]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return sorted(line for line in done.stdout.splitlines() if line.startswith("read "))

    assert len(run()) == 20
    reset = ["--all-topics", "--to-offset", "8", "--force", "--execute", "--backup", "/dev/null"]
    place.run("offsets", "reset", "--checkpoint", checkpoint, "--bootstrap-servers", kafka.bootstrap_servers, *reset)
    assert run() == [f"read {partition} {offset}" for partition in range(2) for offset in (8, 9)]
