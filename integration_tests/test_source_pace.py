"""How fast a query reads, with real triggers: caps by the clock, and the sink's speed without its checkpoint."""

import time

import pytest

from kafka_direct import testing


class Sink:
    """Takes `seconds` for each record, and notes what each batch with records had, and when."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds
        self.batches = []

    def __call__(self, frame, _):
        records = frame.count()
        if records > 0:
            self.batches.append((time.monotonic(), records))
            time.sleep(records * self.seconds)


@pytest.fixture
def start(session, kafka, tmp_path):
    """Start a query on a checkpoint of its own, which the reader is not told: `start(topic, sink, trigger)`."""
    queries = []

    def run(topic, sink, trigger, **options):
        reader = session.readStream.format("kafka_direct").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        reader = reader.options(subscribe=topic, startingOffsets="earliest", trigger="processingTime", **options)
        writer = reader.load().writeStream.foreachBatch(sink).trigger(processingTime=trigger)
        queries.append(writer.option("checkpointLocation", str(tmp_path / str(len(queries)))).start())

    yield run
    for query in queries:
        query.stop()


def test_the_sinks_speed_is_found_under_a_trigger_of_the_targets_length(start, kafka_topic, kafka_produce):
    """From 100 a second to the 1000 of one sink, and past all of what an idle one was ever given."""
    topic = kafka_topic()
    kafka_produce(topic, ["x"] * 60_000)
    slow, idle = Sink(0.001), Sink()
    for sink in (slow, idle):
        start(topic, sink, "2 seconds", backpressure="true", targetBatchDuration="2s", initialRate="100")

    def settled():
        return len(slow.batches) >= 16

    testing.wait_until(settled, "sixteen batches of the slow sink", timeout=120)
    assert slow.batches[0][1] == 200
    last = slow.batches[-6:]
    rate = sum(records for _, records in last[:-1]) / (last[-1][0] - last[0][0])
    # The batch itself, with no records in it, takes a few tenths of a second on a busy machine.
    assert 700 <= rate <= 1000, slow.batches
    assert max(records for _, records in last) <= 1.5 * 2000
    assert sum(records for _, records in idle.batches) == 60_000
    assert max(records for _, records in idle.batches) > 10_000, idle.batches


def test_a_cap_is_records_a_second(start, kafka_topic, kafka_produce):
    """Two partitions of 50 a second, whatever the trigger, over half a minute."""
    topic = kafka_topic(partitions=2)
    for partition in range(2):
        kafka_produce(topic, ["x"] * 30_000, partition=partition)
    sinks = {"200 milliseconds": Sink(), "1 second": Sink(), "10 seconds": Sink()}
    for trigger, sink in sinks.items():
        start(topic, sink, trigger, maxRatePerPartition="50")

    testing.wait_until(lambda: len(sinks["10 seconds"].batches) >= 5, "five slow batches", timeout=120)
    for trigger, sink in sinks.items():
        batches = list(sink.batches)[1:]  # the first batch has a second, and the machine is busy with the start
        seconds = batches[-1][0] - batches[0][0]
        assert seconds > 25
        assert sum(records for _, records in batches[1:]) / seconds == pytest.approx(100, rel=0.1), trigger
