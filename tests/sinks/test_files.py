"""What a batch's files are made of, and which file systems can publish them."""

import logging
from types import SimpleNamespace

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.offsets import LogOwner, OffsetRange, Origin
from kafka_direct.sinks import FileSink
from kafka_direct.sinks.files import filesystem
from kafka_direct.sinks.files.content import Content, driver_in

RANGES = (OffsetRange("t", 0, 0, 5), OffsetRange("u", 0, 3, 3))
OLD_TEXT = '{"ranges": [["t", 0, 0, 5], ["u", 0, 3, 3]]}'  # as versions wrote it that knew no ids


def content(**topic_ids):
    return Content.of_stream(RANGES, Origin(topic_ids=topic_ids))


def by(log, epoch):
    return Content.of_stream(RANGES, Origin(owner=LogOwner(log, epoch)))


def test_a_replay_is_the_same_content():
    """Also where one of the two knows no ids, or not all of them; ids of other topics are left out."""
    known = content(t="one", u="two", other="three")
    assert known.topics == {"t": "one", "u": "two"}
    for left in (known, content(), content(u="two")):
        assert known.is_in(left.text())
        assert left.is_in(known.text())
        assert left.is_in(OLD_TEXT)
    assert content().text() == OLD_TEXT


def test_equal_ranges_of_a_topic_that_was_made_anew_are_others():
    """The offsets begin again at 0, so only the id tells the topics apart."""
    assert not content(t="anew", u="two").is_in(content(t="one", u="two").text())
    assert not Content.of_stream(RANGES[:1], Origin()).is_in(OLD_TEXT)


@pytest.mark.parametrize("text", ["", "half of {", "[]", "7", '{"ranges": []}', '{"topics": 3}', '{"query": "a"}'])
def test_what_is_not_known_is_of_others(text):
    """A torn or foreign file is never taken for the same batch."""
    assert not content(t="one").is_in(text)
    assert not Content.of_query("b").is_in(text)


def test_of_two_drivers_of_one_log_the_newer_is_known():
    """Epochs of different logs say nothing about each other, and what names no driver is not newer."""
    older, newer = by("a-1", 9), by("a-1", 10)
    assert older.is_behind(newer.driver)
    assert older.is_behind(driver_in(newer.text()))
    assert not newer.is_behind(older.driver)
    assert not newer.is_behind(newer.driver)
    assert newer.is_in(older.text())
    for driver in (by("b", 99).driver, "", "ab12", driver_in(OLD_TEXT), driver_in("[]"), driver_in("torn {")):
        assert not older.is_behind(driver)
    assert not by("", 0).is_behind("-7")
    assert not content().is_behind(newer.driver)


def test_a_query_is_known_by_its_id():
    """Each query counts its batches from 0."""
    assert Content.of_query("a").is_in('{"query": "a"}')
    assert Content.of_query("a").text() == '{"query": "a"}'


@pytest.mark.parametrize("path", ["s3a://bucket/x", "gs://bucket/x", "S3://user:secret@bucket/x"])
def test_an_object_store_by_name_is_refused_before_spark_runs(path):
    """The login of a path is in no error."""
    with pytest.raises(ConfigError, match="cannot rename a folder at once; write to HDFS or a disk") as refused:
        FileSink(path)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("path", ["hdfs:///orders", "/orders", "orders", "lake://x/orders"])
def test_the_rest_waits_for_spark(path, caplog):
    """Where a path leads is not known from its text, so nothing is said about it."""
    assert FileSink(path).path == path
    assert not caplog.records


@pytest.fixture
def at(monkeypatch):
    """Check a path on a file system of that kind."""
    monkeypatch.setattr(filesystem, "is_instance_of", lambda *_: False)
    place = SimpleNamespace(toString=lambda: "lake://x/orders")
    hadoop = SimpleNamespace(Path=lambda _: place)
    spark = SimpleNamespace(
        _gateway=None,
        _jsc=SimpleNamespace(hadoopConfiguration=lambda: None),
        _jvm=SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=hadoop)))),
    )

    kind = SimpleNamespace(getName=lambda: "org.example.Files", getSuperclass=lambda: None)

    def check(scheme, *, can=()):
        files = SimpleNamespace(getScheme=lambda: scheme, hasPathCapability=lambda _, what: what in can)
        files.getClass = lambda: kind
        place.getFileSystem = lambda _: files
        filesystem.check_class(spark, "lake://x/orders")
        filesystem.check(spark, "lake://x/orders")

    return check


@pytest.mark.parametrize("scheme", ["s3a", "gs", "wasb", "oss", "cosn", "obs"])
def test_an_object_store_behind_another_name_is_refused(at, scheme):
    """The sentence says what the path leads to."""
    with pytest.raises(ConfigError, match=rf"lake://x/orders leads to {scheme}: and is on an object store"):
        at(scheme)


def test_azure_is_asked_whether_it_has_folders(at):
    """Only an account with a hierarchical namespace has ACLs, and renames a folder at once."""
    at("abfs", can={"fs.capability.paths.acls"})
    with pytest.raises(ConfigError, match="cannot rename a folder at once"):
        at("abfss")


def test_a_file_system_that_nobody_knows_is_said_once(at, caplog):
    """It is used, and the sentence names the danger."""
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            at("future")
            at("hdfs")
    (told,) = [record.getMessage() for record in caplog.records]
    assert told == (
        "it is not known whether the future: file system of lake://x/orders renames a folder at once; if it does it "
        "file by file, readers see parts of a batch: write to HDFS or a disk then."
    )
