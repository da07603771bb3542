"""What the copies of one sink share in a process, and how an RDD is traced to its ranges."""

import pickle
import sqlite3
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark import RDD

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import Loss, LossCause, OffsetRange, Origin
from kafka_direct.output_call import OutputCall, calling, mark
from kafka_direct.sinks import KafkaSink, SqlSink
from kafka_direct.sinks.batch import KafkaBatch
from kafka_direct.sinks.output import Claim, Output

SERVERS = {"bootstrap.servers": "broker:9092"}


class Source(RDD):
    """The RDD of a batch, without a JVM: what sinks ask a KafkaRDD for."""

    def __init__(self, *rows):
        self._rows = rows

    def getNumPartitions(self):
        return 1

    def mapPartitions(self, function):
        return Source(*function(iter(self._rows)))

    def offsetRanges(self):
        return [OffsetRange("t", 0, 0, 1)]

    def losses(self):
        return []

    def origin(self):
        return Origin()

    def outputs(self):
        return None

    def batchId(self):
        raise ConfigError("no checkpoint directory")

    def groupId(self):
        return None

    def collect(self):
        return list(self._rows)


class NotComputed(Source):
    def getNumPartitions(self):
        raise AssertionError("nothing is to be computed")


class Derived(RDD):
    """What `map` or a shuffle makes of an RDD, as far as it says where it comes from."""

    def __init__(self, **prev):
        vars(self).update(prev)


def test_copies_of_one_sink_are_one_output():
    """A recovered driver has a copy per output operation: what one has claimed is the others' too."""
    output = Output("orders")
    first, second = (pickle.loads(pickle.dumps(output)) for _ in range(2))
    made = []

    def take():
        made.append(Claim(len(made)))
        return made[-1]

    assert first.claim(take) is second.claim(take) is output.claim(take)
    assert Output("orders").claim(take) == Claim(1)


def test_the_state_of_an_output_ends_with_its_last_copy():
    """A job may make a sink for each batch."""
    output = Output("orders")
    pickled, state = pickle.dumps(output), weakref.ref(output._shared)
    copy = pickle.loads(pickled)
    del output
    assert state() is copy._shared
    del copy
    assert state() is None


def test_a_batch_is_saved_to_an_output_once():
    """A second output operation with the same sink would skip everything: it is refused instead."""
    output, batch = Output("orders"), Source()
    copy = pickle.loads(pickle.dumps(output))
    copy.refuse_second(batch)
    output.note_saved(batch)

    with pytest.raises(ConfigError, match="saved to twice in one batch"):
        copy.refuse_second(batch)
    copy.refuse_second(Source())


def test_a_batch_that_is_saved_is_not_computed(tmp_path):
    """A replay costs a look."""

    def insert(cursor, rows):
        cursor.execute("CREATE TABLE results AS SELECT 1")

    def save(batch):
        return SqlSink(lambda: sqlite3.connect(tmp_path / "results.db"), "orders").save(batch, insert)

    assert save(Source("a"))
    assert not save(NotComputed())


def call_for(source, *, keeps_ranges=True):
    return OutputCall(lambda: source, lambda: keeps_ranges)


def marked(call):
    """The RDD that Spark made for a call."""
    rdd = Derived()
    mark(rdd, call)
    return rdd


def test_an_rdd_is_of_the_batch_that_it_was_made_of():
    """Map and filter chain back to the stream's RDD, on any thread; of two batches the RDD's own counts."""
    source = Source()
    mapped = Derived(prev=Derived(prev=source))

    with calling(call_for(Source())):
        assert KafkaBatch.of(mapped).rdd is KafkaBatch.of(source).rdd is source
        assert KafkaBatch.of(mapped, by_partition=True).rdd is source
        assert KafkaBatch.of(Derived(prev=marked(call_for(source)))).rdd is source
    assert KafkaBatch.of(Derived(prev=marked(call_for(source))), by_partition=True).rdd is source
    with pytest.raises(ArgumentTypeError, match="this is a list"):
        KafkaBatch.of([1, 2])


def test_an_rdd_without_a_chain_is_of_the_batch_that_is_output_now():
    """As long as that call lasts, and on its thread."""
    source, shuffled, refused = Source(), Derived(prev=Derived()), "nothing says of which batch"
    with calling(call_for(Source())):
        with calling(call_for(source)):
            assert KafkaBatch.of(shuffled).rdd is source
            with ThreadPoolExecutor(1) as thread, pytest.raises(ConfigError, match=refused):
                thread.submit(KafkaBatch.of, shuffled).result()
        assert KafkaBatch.of(shuffled).rdd is not source
    with pytest.raises(ConfigError, match=refused) as told:
        KafkaBatch.of(shuffled)
    assert len(str(told.value).split()) <= 35


def test_partitions_are_ranges_only_if_each_step_says_so():
    """The batch that is output now is not enough: its partitions may be anything."""
    refused = "not its batch's offset ranges any more"
    with calling(call_for(Source())):
        for wrong in (Derived(prev=Derived()), marked(call_for(Source(), keeps_ranges=False))):
            with pytest.raises(ConfigError, match=refused) as told:
                KafkaBatch.of(wrong, by_partition=True)
            assert len(str(told.value).split()) <= 35


def test_a_batch_is_what_its_rdd_says():
    """Without a checkpoint directory it has no id, and each part has the losses of its own range."""
    assert KafkaBatch.of(Source()) == KafkaBatch((OffsetRange("t", 0, 0, 1),), batch_id=None, group=None)
    ranges = tuple(OffsetRange("t", partition, 5, 8) for partition in (0, 1))
    facts = {"cause": LossCause.AGED_OUT, "wanted": 2, "earliest": 5, "latest": 8, "resumed": 5}
    losses = tuple(Loss(topic_partition=range_.topicPartition(), **facts) for range_ in ranges)

    batch = KafkaBatch(ranges, losses, batch_id=7, group="g", rdd=Source())
    assert batch.part(1) == KafkaBatch(ranges[1:], losses[1:], batch_id=7, group="g")
    assert batch.part(1).rdd is None  # it goes to a worker


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
