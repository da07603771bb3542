"""What the copies of one sink share in a process, and how an RDD is traced to its ranges."""

import pickle
import sqlite3
from types import SimpleNamespace

import pytest

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import OffsetRange
from kafka_direct.sinks import KafkaSink, SqlSink
from kafka_direct.sinks.lineage import find_source
from kafka_direct.sinks.output import Output

SERVERS = {"bootstrap.servers": "broker:9092"}


class Batch(SimpleNamespace):
    """Stands for a KafkaRDD: something that can be referred to weakly."""


def test_copies_of_one_sink_are_one_output():
    """A recovered driver has a copy per output operation: what one has claimed is the others' too."""
    output = Output("orders")
    first, second = (pickle.loads(pickle.dumps(output)) for _ in range(2))
    made = []

    def make():
        made.append("claim")
        return made

    assert first.once(make) is second.once(make) is output.once(make)
    assert made == ["claim"]
    assert Output("orders").once(list) == []


def test_a_batch_is_saved_to_an_output_once():
    """A second output operation with the same sink would skip everything: it is refused instead."""
    output, batch = Output("orders"), Batch()
    copy = pickle.loads(pickle.dumps(output))
    copy.refuse_second(batch)
    output.note_saved(batch)

    with pytest.raises(ConfigError, match="saved to twice in one batch"):
        copy.refuse_second(batch)
    copy.refuse_second(Batch())


def test_a_batch_that_is_saved_is_not_computed(tmp_path):
    """A replay costs a look."""

    def batch(*rows):
        def collect():
            assert rows, "nothing is to be computed"
            return rows

        ranges = [OffsetRange("t", 0, 0, 1)]
        return Batch(offsetRanges=lambda: ranges, losses=list, getNumPartitions=lambda: 1, collect=collect)

    def insert(cursor, rows):
        cursor.execute("CREATE TABLE results AS SELECT 1")

    def save(batch):
        return SqlSink(lambda: sqlite3.connect(tmp_path / "results.db"), "orders").save(batch, insert)

    assert save(batch("a"))
    assert not save(batch())


def test_ranges_are_found_through_the_steps_that_keep_partitions():
    """Map and filter chain back to the stream's RDD; what has no chain is refused."""
    source = SimpleNamespace(offsetRanges=list, getNumPartitions=int)
    mapped = SimpleNamespace(prev=SimpleNamespace(prev=source), getNumPartitions=int)

    assert find_source(mapped) is source
    assert find_source(source) is source
    with pytest.raises(ConfigError, match="not its batch's offset ranges any more"):
        find_source(SimpleNamespace(prev=SimpleNamespace(), getNumPartitions=int))
    with pytest.raises(ArgumentTypeError, match="this is a list"):
        find_source([1, 2])


def test_a_sink_in_a_checkpoint_has_no_claim_and_no_secret(monkeypatch):
    """Its successor makes a claim of its own; a literal password is refused as in a stream."""
    monkeypatch.setenv("PASSWORD", "hunter2")
    sink = pickle.loads(pickle.dumps(SqlSink(list, "orders")))

    assert sink.store.name == "orders"
    pickle.dumps(KafkaSink(SERVERS | {"sasl.password": "env:PASSWORD"}, "out", name="orders"))
    with pytest.raises(ConfigError, match="would be written into the checkpoint"):
        pickle.dumps(KafkaSink(SERVERS | {"sasl.password": "hunter2"}, "out", name="orders"))


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"transactional.id": "mine"}, "transactional.id is chosen here"),
        ({"acks": 1}, "needs an idempotent producer"),
        ({"enable.idempotence": False}, "needs an idempotent producer"),
    ],
)
def test_what_excludes_transactions_is_refused(params, said):
    """When the sink is made, before any data moves."""
    with pytest.raises(ConfigError, match=said):
        KafkaSink(SERVERS | params, "out", name="orders")


@pytest.mark.parametrize(("topic", "name"), [("no topic", "n"), ("out", ""), ("out", " "), ("out", None)])
def test_a_sink_has_a_topic_and_a_name(topic, name):
    """Both are checked where they are given."""
    with pytest.raises(ConfigError):
        KafkaSink(SERVERS, topic, name=name)
