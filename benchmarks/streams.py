"""Streams: a backlog drained in batches, and what a batch costs when there is little in it."""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
from itertools import pairwise
from operator import add

from pyspark.sql import functions as sf
from pyspark.streaming import StreamingContext
from pyspark.streaming.listener import StreamingListener

from benchmarks.contest import Contest
from benchmarks.cost import resident
from benchmarks.topics import word_total
from kafka_direct import createDirectStream

OURS, JVM_SOURCE, JVM = "kafka_direct", "kafka (JVM)", "kafka (JVM) + mapInArrow"
BATCHES, INTERVAL = 10, 0.2
MICRO_BATCH = 1000
DRAIN_SECONDS = 600


class Watch(StreamingListener):
    """Collects Spark's reports of finished batches, until there are as many as wanted."""

    def __init__(self, wanted):
        super().__init__()
        self._wanted, self.infos, self.finished = wanted, [], threading.Event()

    def onBatchCompleted(self, batchCompleted):
        info = batchCompleted.batchInfo()
        self.infos.append(
            {
                "records": info.numRecords(),
                "submitted": info.submissionTime(),
                "began": info.processingStartTime(),
                "ended": info.processingEndTime(),
                "at": info.batchTime().milliseconds(),
            }
        )
        if len(self.infos) >= self._wanted:
            self.finished.set()


def run_stream(sc, interval, batches, build):
    """Run a StreamingContext that `build(ssc)` fills until `batches` batches have ended; returns Spark's reports."""
    ssc = StreamingContext(sc, interval)
    watch = Watch(batches)
    ssc.addStreamingListener(watch)
    build(ssc)
    ssc.start()
    reached = watch.finished.wait(DRAIN_SECONDS)
    ssc.stop(stopSparkContext=False)
    assert reached, f"only {len(watch.infos)} of {batches} batches have ended"
    return watch.infos[:batches]


def run_query(spark, source, backlog, most, attach, schema=None):
    """Run a query that `attach(frame)` makes over the backlog, `most` records a batch; returns Spark's reports."""
    reader = spark.readStream.format(source).option("kafka.bootstrap.servers", backlog.bootstrap)
    reader = reader if schema is None else reader.schema(schema)
    reader = reader.option("subscribe", backlog.topic).option("startingOffsets", "earliest")
    with tempfile.TemporaryDirectory() as folder:
        writer = attach(reader.option("maxOffsetsPerTrigger", most).load()).option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(DRAIN_SECONDS)
    return query.recentProgress


def micro_batches(spark, backlog, *, has_jvm):
    """How long a query's batch of few records takes with its planning and its log; a median for each run."""

    def run(source):
        reports = run_query(spark, source, backlog, MICRO_BATCH, lambda frame: frame.writeStream.format("noop"))
        full = [p["durationMs"]["triggerExecution"] for p in reports if p["numInputRows"] == MICRO_BATCH]
        # The first batches start workers and clients.
        return sum(p["numInputRows"] for p in reports), statistics.median(full[2:]) / 1000

    contestants = {JVM_SOURCE: lambda: run("kafka")} if has_jvm else {}
    contestants[OURS] = lambda: run(OURS)
    return Contest(f"a micro-batch of {MICRO_BATCH:,} records", contestants, backlog.records, 0, JVM_SOURCE)


class Drain:
    """A backlog in ten batches: this package, and Structured Streaming on the JVM source."""

    def __init__(self, spark, backlog, size, *, has_jvm):
        self._spark, self._backlog, self._has_jvm = spark, backlog, has_jvm
        self._answer = word_total(backlog.records, size)

    def function(self):
        """A Python function per record."""

        def attach(stream, totals):
            words = stream.map(lambda pair: len(pair[1].split()))
            words.foreachRDD(lambda rdd: totals.append(rdd.sum()))

        def words(batches):
            import pyarrow as pa

            for batch in batches:
                total = sum(len(value.decode().split()) for value in batch.column(0).to_pylist())
                yield pa.RecordBatch.from_pydict({"words": pa.array([total], pa.int64())})

        def attach_query(frame, totals):
            def output(batch, _):
                counts = batch.select("value").mapInArrow(words, "words LONG")
                totals.append(counts.groupBy().sum().first()[0] or 0)

            return frame.writeStream.foreachBatch(output)

        contestants = {"DStream": lambda: self._stream(attach, BATCHES)}
        if self._has_jvm:
            contestants[JVM] = lambda: self._query("kafka", attach_query)
        return self._contest("stream, a function per record", contestants, JVM)

    def windows(self):
        """Words counted in windows: of two batches in a DStream, of a second in a query, which splits them by SQL."""

        def attach(stream, totals):
            pairs = stream.flatMap(lambda pair: pair[1].split()).map(lambda word: (word, 1))
            counts = pairs.reduceByKeyAndWindow(add, None, 2 * INTERVAL, 2 * INTERVAL, numPartitions=2)
            counts.foreachRDD(lambda rdd: totals.append(rdd.values().sum()))

        def attach_query(frame, totals):
            latest = {}

            def output(batch, _):
                before = sum(latest.values())
                latest.update({(row.window.start, row.word): row["count"] for row in batch.collect()})
                totals.append(sum(latest.values()) - before)

            words = frame.select("timestamp", sf.explode(sf.split(frame.value.cast("string"), " ")).alias("word"))
            counts = words.groupBy(sf.window("timestamp", "1 second"), "word").count()
            return counts.writeStream.outputMode("update").foreachBatch(output)

        contestants = {
            "DStream": lambda: self._stream(attach, BATCHES // 2),
            OURS: lambda: self._query(OURS, attach_query, "value STRING, timestamp TIMESTAMP"),
        }
        if self._has_jvm:
            contestants[JVM_SOURCE] = lambda: self._query("kafka", attach_query)
        return self._contest("stream, words in windows", contestants, JVM_SOURCE)

    def _contest(self, name, contestants, baseline):
        return Contest(name, contestants, self._answer, self._backlog.records, baseline)

    def _stream(self, attach, outputs):
        totals = []

        def build(ssc):
            most = max(self._backlog.ends()) / BATCHES / INTERVAL + 1
            params = {"bootstrap.servers": self._backlog.bootstrap, "auto.offset.reset": "earliest"}
            attach(createDirectStream(ssc, [self._backlog.topic], params, maxRatePerPartition=most), totals)

        infos = run_stream(self._spark.sparkContext, INTERVAL, BATCHES, build)
        return sum(totals[:outputs]), sum(info["ended"] - info["began"] for info in infos) / 1000

    def _query(self, source, attach, schema=None):
        totals, most = [], self._backlog.records // BATCHES
        reports = run_query(self._spark, source, self._backlog, most, lambda frame: attach(frame, totals), schema)
        # The same as for a DStream: the job, without planning and without the log.
        return sum(totals), sum(p["durationMs"]["addBatch"] for p in reports) / 1000


class Overhead:
    """What a batch of few records costs, from its time to the end of its output, compared to a JVM queueStream."""

    def __init__(self, spark, backlog, *, interval=0.25, batches=20):
        self._sc, self._backlog = spark.sparkContext, backlog
        self._interval, self._batches = interval, batches
        self._partitions = backlog.partitions
        self.planning_ms = {}  # by contestant and records: from a batch's time to its jobs, a median for each turn

    def contest(self, records):
        """`records` a batch; 0 for batches that find nothing new."""
        return Contest(
            f"a batch of {records} records, {self._partitions} partitions",
            {
                "queueStream (JVM)": lambda: self._queue(records),
                "DStream": lambda: self._direct(records, checkpoint=False),
                "DStream, checkpointed": lambda: self._direct(records, checkpoint=True),
            },
            records * self._batches,
            records * self._batches,
            "queueStream (JVM)",
        )

    def _queue(self, records):
        rdd = self._sc.parallelize(range(records), self._partitions)
        return self._run(f"queueStream, {records}", lambda ssc: ssc.queueStream([rdd] * (self._batches + 100)))

    def _direct(self, records, *, checkpoint):
        start = "latest" if records == 0 else "earliest"
        params = {"bootstrap.servers": self._backlog.bootstrap, "auto.offset.reset": start}
        rate = records / self._partitions / self._interval

        def make(ssc):
            return createDirectStream(ssc, [self._backlog.topic], params, maxRatePerPartition=rate)

        if not checkpoint:
            return self._run(f"DStream, {records}", make)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            return self._run(f"checkpointed, {records}", lambda ssc: (ssc.checkpoint(folder), make(ssc))[1])

    def _run(self, name, make):
        counts = []

        def output(rdd):
            counts.append(rdd.mapPartitions(lambda part: [sum(1 for _ in part)]).sum())

        infos = run_stream(self._sc, self._interval, self._batches, lambda ssc: make(ssc).foreachRDD(output))
        # The first batches start workers and clients.
        self.planning_ms.setdefault(name, []).append(_median(infos[5:], "at", "submitted"))
        late = [info["ended"] - max(info["at"], before["ended"]) for before, info in pairwise(infos)]
        return sum(counts[: self._batches]), statistics.median(late[5:]) / 1000


class Growth:
    """A stream of many batches: its time per batch and its memory, early and late."""

    def __init__(self, spark, backlog, batches, *, interval=0.2):
        self._sc, self._backlog = spark.sparkContext, backlog
        self._batches, self._interval = batches, interval

    def measure(self, *, checkpoint):
        """Medians by tenth of the batches, and memory at the end of each; the first one warms up."""
        params = {"bootstrap.servers": self._backlog.bootstrap, "auto.offset.reset": "earliest"}
        rate = self._backlog.records / self._backlog.partitions / self._batches / self._interval
        counts, memory, tenth = [], [], self._batches // 10

        def output(rdd):
            counts.append(rdd.count())
            if len(counts) % tenth == 0:
                memory.append(_memory(rdd.context))

        def build(ssc):
            if checkpoint:
                ssc.checkpoint(folder)
            stream = createDirectStream(ssc, [self._backlog.topic], params, maxRatePerPartition=rate)
            stream.foreachRDD(output)

        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            infos = run_stream(self._sc, self._interval, self._batches, build)
            files = sum(len(names) for _, _, names in os.walk(folder))
        tenths = [infos[start : start + tenth] for start in range(0, self._batches, tenth)]
        return {
            "batches": self._batches,
            "records": sum(counts[: self._batches]),
            "planning_ms": [_median(part, "at", "submitted") for part in tenths],
            "processing_ms": [_median(part, "began", "ended") for part in tenths],
            "mb": {role: [at[role] for at in memory[: len(tenths)]] for role in memory[0]},
            "files": files,
        }


def _memory(sc):
    """MB resident by role, and the JVM's heap in use after a collection."""
    runtime = sc._jvm.Runtime.getRuntime()
    sc._jvm.System.gc()
    heap = runtime.totalMemory() - runtime.freeMemory()
    return {role: size >> 20 for role, size in (resident() | {"jvm heap": heap}).items()}


def _median(infos, since, until):
    return statistics.median(info[until] - info[since] for info in infos)
