"""Which query a batch of foreachBatch is of, where the thread says it and where it does not."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError

from kafka_direct.errors import ConfigError
from kafka_direct.sinks import query
from kafka_direct.sinks.query import find_query


def context(said=None):
    return SimpleNamespace(getLocalProperty={query.PROPERTY: said}.get)


def running(monkeypatch, **sessions):
    """Queries by id, each in the session that it runs in."""

    def of(session):
        return SimpleNamespace(sparkSessionForStream=lambda: SimpleNamespace(equals=lambda other: other == session))

    monkeypatch.setattr(query, "_running", lambda _: {id_: of(session) for id_, session in sessions.items()})


def frame(session):
    return SimpleNamespace(sparkSession=SimpleNamespace(_jsparkSession=session))


def test_the_thread_says_it(monkeypatch):
    """Then nothing else is asked."""
    running(monkeypatch, a="one", b="two")
    assert find_query(context("mine")) == "mine"


def test_the_only_query_that_runs_is_the_one(monkeypatch):
    """A query runs while its function of foreachBatch does; without a query there is none."""
    running(monkeypatch, a="one")
    assert find_query(context()) == "a"
    running(monkeypatch)
    assert find_query(context()) is None


def test_of_several_queries_none_is_guessed(monkeypatch):
    """Two queries that pass for one would replace each other's batches."""
    running(monkeypatch, a="one", b="two")
    for given in (None, frame("a session of the user's")):
        with pytest.raises(ConfigError, match=r"2 queries run here.* leave PYSPARK_PIN_THREAD at true"):
            find_query(context(), given)


def test_a_frame_knows_its_query(monkeypatch):
    """It is of the session that Spark made for the query."""
    running(monkeypatch, a="one", b="two")
    assert find_query(context(), frame("two")) == "b"


def test_a_spark_that_does_not_say_the_session_is_not_asked_again(monkeypatch):
    """What it keeps of a query is not public, and may have another name."""

    def absent():
        raise Py4JError("no such method")

    unknown = SimpleNamespace(sparkSessionForStream=absent)
    monkeypatch.setattr(query, "_running", lambda _: {"a": unknown})
    assert find_query(context(), frame("one")) == "a"


def test_a_process_without_a_session_runs_no_query(monkeypatch):
    """A direct stream alone starts no SparkSession, and a session of a stopped context is none."""
    from pyspark.sql import SparkSession

    for session in (None, SimpleNamespace(sparkContext="a context that was stopped")):
        monkeypatch.setattr(SparkSession, "_instantiatedSession", session)
        assert find_query(context()) is None
