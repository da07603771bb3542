"""How far a query is behind, from its progress reports."""

from __future__ import annotations

import doctest
import json
import sys
import urllib.request
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafka_direct.errors import ConfigError
from kafka_direct.metrics.lag import Lag, measure, read_reports
from kafka_direct.metrics.listener import LagListener
from kafka_direct.offsets import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def progress(second, consumed, latest, query="q1", name="orders", *, is_ours=False):
    """A report as PySpark hands it over, of a query of a Kafka source and another."""

    def text(offsets):
        return None if offsets is None else json.dumps({"t": {str(p): offset for p, offset in offsets.items()}})

    described = "org.apache.spark.PythonMicroBatchStream@1" if is_ours else "KafkaV2"
    kafka = SimpleNamespace(description=described, endOffset=text(consumed), latestOffset=text(latest))
    rate = SimpleNamespace(description="RateStreamV2", endOffset="17", latestOffset=None)
    time = f"2026-11-18T10:00:{second:02}.000Z"
    return SimpleNamespace(id=query, name=name, timestamp=time, sources=[rate, kafka])


def lags(*reports):
    return measure(read_reports(reports))


def test_examples_are_true():
    """Every doctest of the module gives what it shows."""
    assert doctest.testmod(sys.modules[measure.__module__]).failed == 0


def test_nothing_is_known_before_the_first_batch():
    """No report, or none with the ends of Kafka's partitions."""
    assert lags() == {}
    assert lags(progress(0, {0: 5}, None)) == {}


def test_records_and_seconds():
    """By partition: what is not read yet, and how long ago the end stood where the query stands."""
    found = lags(progress(0, {0: 0, 1: 5}, {0: 100, 1: 5}), progress(10, {0: 120, 1: 5}, {0: 200, 1: 5}))

    assert found == {T0: Lag(records=80, seconds=8.0), T1: Lag(records=0, seconds=0.0)}


def test_an_age_that_no_report_reaches():
    """Is unknown, and not zero."""
    assert lags(progress(0, {0: 0}, {0: 100}), progress(10, {0: 20}, {0: 200})) == {T0: Lag(records=180, seconds=None)}
    assert lags(progress(0, {0: 0}, {0: 9}), progress(5, {0: 9, 1: 0}, {0: 9, 1: 4}))[T1] == Lag(
        records=4, seconds=None
    )


def test_no_end_moves_back():
    """A truncated topic leaves no negative lag."""
    assert lags(progress(0, {0: 500}, {0: 10})) == {T0: Lag(records=0, seconds=0.0)}


@pytest.mark.parametrize("tells", [True, False])
def test_reports_that_do_not_tell(monkeypatch, caplog, tells):
    """On PySpark 4.0 and 4.1 they repeat the end of the batch: that is no lag of 0. Spark's own source tells."""
    monkeypatch.setattr(sys.modules[measure.__module__], "tells_triggers", lambda: tells)
    ours, listener = progress(0, {0: 5}, {0: 5}, is_ours=True), LagListener()
    for _ in range(2):
        listener.onQueryProgress(SimpleNamespace(progress=ours))

    assert lags(progress(0, {0: 5}, {0: 9}))[T0].records == 4
    if tells:
        assert lags(ours)[T0].records == 0
        return
    with pytest.raises(ConfigError, match=r"the lag of a query of kafka_direct needs PySpark 4\.2 or newer"):
        lags(ours)
    assert caplog.text.count("a LagListener has nothing to show: the lag of a query") == 1


@pytest.fixture
def listener():
    made = []

    def listen(*args, **kwargs):
        made.append(LagListener(*args, **kwargs))
        return made[-1]

    yield listen
    for each in made:
        each.close()


def samples(text):
    """Type, name, labels and value of each line, as Prometheus reads it."""
    families = text_string_to_metric_families(text)
    return [(family.type, line.name, line.labels, line.value) for family in families for line in family.samples]


def hear(listener, *reports):
    for report in reports:
        listener.onQueryProgress(SimpleNamespace(progress=report))


def test_a_callback_hears_of_each_batch(listener, caplog):
    """By the query's name; a callback that fails is logged, and heard of no more than that."""
    heard = []
    hear(listener(lambda name, lags: heard.append((name, lags[T0].records))), progress(0, {0: 1}, {0: 4}))
    assert heard == [("orders", 3)]

    hear(listener(lambda name, lags: 1 / 0), progress(0, {0: 1}, {0: 4}))
    assert "the callback of a LagListener failed" in caplog.text


def test_prometheus(listener):
    """Text on a port, with one line a partition and query; a query that has ended is gone from it."""
    made = listener(port=0)
    hear(made, progress(0, {0: 0}, {0: 100}), progress(10, {0: 100}, {0: 200}), progress(3, {1: 2}, {1: 9}, "q2", None))

    def scrape():
        with urllib.request.urlopen(f"http://127.0.0.1:{made.port}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return samples(answer.read().decode())

    orders, second = (
        {"query": "orders", "topic": "t", "partition": "0"},
        {"query": "q2", "topic": "t", "partition": "1"},
    )
    assert scrape() == [
        ("gauge", "kafka_direct_lag_records", orders, 100),
        ("gauge", "kafka_direct_lag_records", second, 7),
        ("gauge", "kafka_direct_lag_seconds", orders, 10),
    ]
    made.onQueryTerminated(SimpleNamespace(id="q1"))
    assert scrape() == [("gauge", "kafka_direct_lag_records", second, 7)]


def test_closing_frees_the_port(listener):
    """Another listener may serve there at once; a second close does nothing."""
    made = listener(port=0)
    made.close()
    made.close()

    assert listener(port=made.port).port == made.port


def test_two_listeners(listener):
    """Each shows its own queries."""
    one, other = listener(port=0), listener(port=0)
    hear(one, progress(0, {0: 1}, {0: 4}))

    assert len(samples(one.text())) == 1
    assert samples(other.text()) == []


def test_without_prometheus_client(listener, monkeypatch):
    """A callback needs no library; what does need it is refused with the line that installs it."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "kafka_direct.metrics.prometheus", raising=False)
    made = listener(lambda name, lags: None)

    for use in (made.text, lambda: listener(port=0)):
        with pytest.raises(ConfigError, match=r"need prometheus_client: pip install 'kafka-direct\[metrics\]'\.$"):
            use()


def test_names_are_escaped(listener):
    """A name may hold anything."""
    made = listener()
    hear(made, progress(0, {0: 1}, {0: 4}, name='a"b\\c\nd'))

    ((_, _, labels, _),) = samples(made.text())
    assert labels["query"] == 'a"b\\c\nd'
