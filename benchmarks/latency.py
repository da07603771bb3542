"""How long records take to an output: bursts of 1,000 on an idle stream, by this package and by Spark's own source."""

from __future__ import annotations

import queue
import random
import statistics
import tempfile
import time

from pyspark.streaming import StreamingContext

from benchmarks.contest import Contest
from kafka_direct import createDirectStream
from kafka_direct.testing import create_topic, produce

BURST, BURSTS = 1000, 15
INTERVAL = 0.1  # of the DStream's batches
PATIENCE = 60


class Latency:
    """From the broker's acknowledgement of a burst's last record to the end of the output that has it; medians."""

    def __init__(self, spark, bootstrap, *, has_jvm):
        self._spark, self._bootstrap, self._has_jvm = spark, bootstrap, has_jvm

    def contest(self):
        sources = (["kafka"] if self._has_jvm else []) + ["kafka_direct"]
        contestants = {_title(source): lambda source=source: self._query(source) for source in sources}
        contestants[f"DStream, {INTERVAL} s"] = self._stream
        return Contest(f"latency of {BURST:,} records", contestants, BURST * BURSTS, 0, _title("kafka"))

    def _query(self, source):
        topic, done = create_topic(self._bootstrap, partitions=2), queue.SimpleQueue()
        reader = self._spark.readStream.format(source).option("kafka.bootstrap.servers", self._bootstrap)
        frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            writer = frame.writeStream.option("checkpointLocation", folder)
            query = writer.foreachBatch(lambda batch, _: done.put(batch.count())).start()
            try:
                return self._bursts(topic, done)
            finally:
                query.stop()

    def _stream(self):
        topic, done = create_topic(self._bootstrap, partitions=2), queue.SimpleQueue()
        ssc = StreamingContext(self._spark.sparkContext, INTERVAL)
        params = {"bootstrap.servers": self._bootstrap, "auto.offset.reset": "earliest"}
        createDirectStream(ssc, [topic], params).foreachRDD(lambda rdd: done.put(rdd.count()))
        ssc.start()
        try:
            return self._bursts(topic, done)
        finally:
            ssc.stop(stopSparkContext=False)

    def _bursts(self, topic, done):
        """The first burst starts workers and clients, and is not counted."""
        chance, counted, seconds = random.Random(7), 0, []
        for _ in range(BURSTS + 1):
            time.sleep(chance.uniform(0, 2 * INTERVAL))  # a random moment between two batches
            produce(self._bootstrap, topic, ["x" * 100] * BURST)
            began, seen = time.perf_counter(), 0
            while seen < BURST:
                seen += done.get(timeout=PATIENCE)
            seconds.append(time.perf_counter() - began)
            counted += seen
        return counted - BURST, statistics.median(seconds[1:])


def _title(source):
    return "kafka (JVM)" if source == "kafka" else source
