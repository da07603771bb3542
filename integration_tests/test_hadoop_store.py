"""The log's file system on a real HDFS and S3: of two writers one wins, and what is away is not empty."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from stores import hadoop_gateway, race, store_at

from kafka_direct.errors import StoreUnavailable
from kafka_direct.hadoop import HadoopStores
from kafka_direct.hadoop.store import HadoopStore
from kafka_direct.offsets.store.files import LogFiles

WRITERS = 4


@pytest.fixture(scope="module")
def hadoop():
    with hadoop_gateway() as gateway:
        yield gateway


@pytest.fixture(scope="module", params=["hdfs", "s3"])
def server(request, tmp_path_factory):
    with store_at(request.param, tmp_path_factory.mktemp("store")) as (store, _, _):
        yield store


@pytest.fixture
def files(hadoop, server):
    """Make the files of a folder, as a driver has them: with a connection of its own, and Spark's settings."""
    opened = []

    def make(folder):
        configuration = hadoop.jvm.org.apache.hadoop.conf.Configuration()
        for key, value in server.spark_conf().items():
            configuration.set(key.removeprefix("spark.hadoop."), value)
        opened.append(HadoopStores(hadoop, configuration))
        return LogFiles.open(f"{server.uri}/{folder}", locate=opened[-1].locate)

    yield make
    for stores in opened:
        stores.close()


def test_of_writers_at_the_same_time_one_wins(files):
    """Two drivers plan the same batch in the same millisecond: one is told that it wrote the file, and it did."""
    writers = [files("race") for _ in range(WRITERS)]
    for number in map(str, range(15)):
        there = race(lambda n, name=number: writers[n].create(name, f"of {n}"), WRITERS)

        assert there.count(None) == 1, (number, there)
        assert {text or writers[0].read(number) for text in there} == {f"of {there.index(None)}"}
    assert [writer.caution() for writer in writers] == [None] * WRITERS


@contextmanager
def away(server):
    """While this lasts, the server does not answer, or answers that it is busy."""
    is_hdfs = server.uri.startswith("hdfs")
    server.kill() if is_hdfs else server.answer_503(True)
    try:
        yield
    finally:
        server.restart() if is_hdfs else server.answer_503(False)


def test_a_store_that_is_away_is_not_empty(files, server):
    """Else a stream would begin anew, at its group or at latest, over the batches that it has."""
    files("away").create("0", "a plan")
    looking = files("away")
    with away(server):
        for look in (lambda: list(looking.names()), lambda: looking.read("0"), lambda: looking.modified("0")):
            with pytest.raises(StoreUnavailable):
                look()

    assert list(files("away").names()) == ["0"]


class Killed(BaseException):
    """The process ended here."""


@pytest.mark.parametrize("scheme", ["as it is", "abfs"])
def test_a_writer_that_is_killed_leaves_no_half(files, server, monkeypatch, scheme):
    """A file is there whole or not at all. ABFS makes an empty file when it is opened, and so does HDFS."""
    writer = files(f"half-{scheme.replace(' ', '-')}")
    if scheme == "abfs":
        if not server.uri.startswith("hdfs"):
            pytest.skip("S3A makes nothing before it is closed")
        monkeypatch.setattr(writer._store, "_scheme", scheme)

    def write(stream, text, **_):
        stream.write(bytearray(text[:1].encode()))
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(HadoopStore, "_write", staticmethod(write))
        with pytest.raises(Killed):
            writer.create("0", "a plan")

    assert list(writer.names()) == []
    assert writer.create("0", "a plan") is None
    assert writer.read("0") == "a plan"
