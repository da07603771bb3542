"""The stores of the test kit: a real HDFS, and an S3 with faults on demand, as Spark's Hadoop sees them."""

import http.client
import os
import socket
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from py4j.protocol import Py4JJavaError

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from stores import hadoop_gateway, race

from kafka_direct.testing import KafkaStartError, LocalHdfs, LocalS3
from kafka_direct.testing import s3 as s3_module

CONDITIONAL = "fs.option.create.conditional.overwrite"
IMPATIENT = {"attempts.maximum": "0", "retry.limit": "0", "retry.throttle.limit": "0"}
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, Signature=none"}


@pytest.fixture(scope="module")
def hadoop():
    with hadoop_gateway() as gateway:
        yield gateway


@pytest.fixture(scope="module")
def hdfs():
    with LocalHdfs() as store:
        yield store


@pytest.fixture(scope="module")
def s3():
    with LocalS3() as store:
        yield store


class Files:
    """A client of a store with connections of its own."""

    def __init__(self, hadoop, store, more=None):
        self.jvm, self.store, self.hadoop = hadoop.jvm, store, hadoop
        conf = self.jvm.org.apache.hadoop.conf.Configuration()
        for key, value in {**store.spark_conf(), **(more or {})}.items():
            conf.set(key.removeprefix("spark.hadoop."), value)
        uri = self.jvm.java.net.URI(f"{store.uri}/")
        self.system = self.jvm.org.apache.hadoop.fs.FileSystem.newInstance(uri, conf)
        self.context = self.jvm.org.apache.hadoop.fs.FileContext

    def path(self, name):
        return self.jvm.org.apache.hadoop.fs.Path(f"{self.store.uri}/{name}")

    def write(self, name, text=""):
        self.fill(self.system.create(self.path(name), False), text)

    def write_conditionally(self, name, text):
        self.fill(self.system.createFile(self.path(name)).must(CONDITIONAL, "true").build(), text)

    def fill(self, stream, text):
        stream.write(bytearray(text.encode()))
        stream.close()

    def read(self, name):
        stream = self.system.open(self.path(name))
        try:
            return self.jvm.org.apache.commons.io.IOUtils.toString(stream, "utf8")
        finally:
            stream.close()

    def names(self, folder):
        return sorted(status.getPath().getName() for status in self.system.listStatus(self.path(folder)))


def answer(s3, method, key, body=b"", headers=None):
    """The status of one request over a connection of its own, made by `http.client`: no client that tries again."""
    connection = http.client.HTTPConnection(urlsplit(s3.endpoint).netloc, timeout=30)
    try:
        connection.request(method, f"/{urlsplit(s3.uri).netloc}/{key}", body, {**SIGNED, **(headers or {})})
        return connection.getresponse().status
    finally:
        connection.close()


def refuses_connections(uri):
    address = urlsplit(uri)
    try:
        socket.create_connection((address.hostname, address.port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_hdfs_keeps_files_when_it_is_killed(hadoop, hdfs):
    """A killed NameNode and DataNode return at the same address, out of safe mode, with the files' contents."""
    uri = hdfs.uri
    # A JVM has one connection for all clients of equal settings, and the first call after a restart fails on it.
    before, after = ({"ipc.client.rpc-timeout.ms": limit} for limit in ("20000", "30000"))
    Files(hadoop, hdfs, before).write("kept/one", "contents")

    hdfs.kill()

    assert refuses_connections(hdfs.uri)
    hdfs.restart()
    files = Files(hadoop, hdfs, after)
    assert (hdfs.uri, files.read("kept/one")) == (uri, "contents")
    files.write("kept/two", "more")
    assert files.names("kept") == ["one", "two"]


def test_hdfs_lets_one_of_racing_renames_win(hadoop, hdfs):
    """A rename without OVERWRITE publishes a file exclusively, among clients with connections of their own."""
    files = Files(hadoop, hdfs)
    context = files.context.getFileContext(files.system.getUri())
    no_options = hadoop.new_array(getattr(files.jvm.org.apache.hadoop.fs, "Options$Rename"), 0)

    def publish(number, writer):
        try:
            context.rename(files.path(f"race/{number}.{writer}"), files.path(f"race/{number}"), no_options)
        except Py4JJavaError as error:
            return error.java_exception.getClass().getSimpleName()
        return "won"

    for number in range(25):
        for writer in range(4):
            files.write(f"race/{number}.{writer}")
        results = race(lambda writer, number=number: publish(number, writer))
        assert Counter(results) == {"won": 1, "FileAlreadyExistsException": 3}


def test_a_frozen_hdfs_answers_once_it_is_thawed(hadoop, hdfs):
    """A client waits for a frozen NameNode, and its call succeeds afterwards."""
    files = Files(hadoop, hdfs)
    files.write("frozen/file")

    hdfs.freeze()
    try:
        with ThreadPoolExecutor(1) as pool:
            listed = pool.submit(files.names, "frozen")
            with pytest.raises(TimeoutError):
                listed.result(timeout=1)
            hdfs.thaw()
            assert listed.result(timeout=30) == ["file"]
    finally:
        hdfs.thaw()


def test_only_a_killed_store_can_be_restarted(s3):
    """A second process on the port would not start."""
    with pytest.raises(KafkaStartError, match="s3 runs already: kill it"):
        s3.restart()


def test_a_store_outside_a_with_statement_says_so():
    """There is no address to give."""
    for store in (LocalHdfs(), LocalS3()):
        with pytest.raises(KafkaStartError, match="is not started: use it in a `with`"):
            store.kill()


def test_s3_holds_files_of_sparks_client(hadoop, s3):
    """S3A writes, lists and reads with the fetched parts of the AWS SDK, and what it asked can be counted."""
    files = Files(hadoop, s3)
    before = len(s3.requests())

    files.write_conditionally("trip/file", "contents")

    (put,) = s3.requests()[before:]
    assert put == ("PUT", "trip/file", "", "*", 200)
    assert (files.read("trip/file"), files.names("trip")) == ("contents", ["file"])


@pytest.fixture
def hasty_s3(monkeypatch, tmp_path):
    """A server whose threads take turns as often as Python can, so that a race is lost where one is possible."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.setswitchinterval(1e-6)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with LocalS3() as store:
        yield store


def test_s3_lets_one_of_racing_conditional_puts_win(hasty_s3):
    """Exactly one of four concurrent writers creates a key, 200 times."""
    for number in range(200):
        results = race(lambda _, key=f"race/{number}": answer(hasty_s3, "PUT", key, b"1", {"If-None-Match": "*"}))
        assert Counter(results) == {200: 1, 412: 3}


def test_the_second_writer_of_sparks_client_fails(hadoop, s3):
    """Both opened the file while it was not there; the one that closes it second gets an error, and changes nothing."""
    one, other = (
        files.system.createFile(files.path("two")).must(CONDITIONAL, "true").build()
        for files in (Files(hadoop, s3), Files(hadoop, s3))
    )
    one.write(bytearray(b"one"))
    other.write(bytearray(b"other"))
    one.close()

    with pytest.raises(Py4JJavaError, match="RemoteFileChangedException"):
        other.close()

    assert Files(hadoop, s3).read("two") == "one"


def test_s3_answers_503_on_demand(hadoop, s3):
    """Nothing is done meanwhile, and everything works afterwards."""
    files = Files(hadoop, s3, {f"spark.hadoop.fs.s3a.{key}": value for key, value in IMPATIENT.items()})
    s3.answer_503(True)
    try:
        with pytest.raises(Py4JJavaError, match="AWSServiceThrottledException"):
            files.write_conditionally("busy/file", "contents")
        assert s3.requests()[-1].status == 503
    finally:
        s3.answer_503(False)

    assert answer(s3, "HEAD", "busy/file") == 404
    files.write_conditionally("busy/file", "contents")
    assert files.names("busy") == ["file"]


def test_s3_loses_an_answer_on_demand(s3):
    """The next PUT of such a key is done and its connection closed; other requests are answered, and the one after."""
    s3.lose_next_answer("lost/")

    assert answer(s3, "PUT", "other", b"1") == 200
    with pytest.raises(http.client.RemoteDisconnected):
        answer(s3, "PUT", "lost/file", b"2", {"If-None-Match": "*"})
    assert s3.requests()[-1] == ("PUT", "lost/file", "", "*", 200)
    assert answer(s3, "PUT", "lost/file", b"2", {"If-None-Match": "*"}) == 412


def test_a_frozen_s3_answers_once_it_is_thawed(s3):
    """The request that waited is done."""
    s3.freeze()
    try:
        with ThreadPoolExecutor(1) as pool:
            put = pool.submit(answer, s3, "PUT", "frozen", b"1")
            with pytest.raises(TimeoutError):
                put.result(timeout=1)
            s3.thaw()
            assert put.result(timeout=30) == 200
    finally:
        s3.thaw()


def test_a_killed_s3_returns_empty_at_its_address(s3):
    """It is in memory; its bucket is there again."""
    endpoint = s3.endpoint
    assert answer(s3, "PUT", "gone", b"1") == 200

    s3.kill()

    assert refuses_connections(s3.endpoint)
    s3.restart()
    assert (s3.endpoint, answer(s3, "HEAD", "gone")) == (endpoint, 404)
    assert answer(s3, "PUT", "gone", b"1") == 200


def test_a_missing_moto_is_named(monkeypatch):
    """The error says what to install."""
    monkeypatch.setattr(s3_module, "NEEDED", ("no_such_module",))

    with pytest.raises(KafkaStartError, match="needs no_such_module: pip install"), LocalS3():
        pass
