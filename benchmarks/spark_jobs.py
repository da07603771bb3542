"""Batch jobs over one backlog: this package's and the JVM source's, in one session."""

from __future__ import annotations

from operator import add

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from benchmarks.contest import Contest
from benchmarks.topics import amounts, word_total
from kafka_direct import OffsetRange, createRDD, source

ORDER = "id LONG, kind STRING, amount LONG, note STRING"
OURS, JVM = "kafka_direct", "kafka (JVM)"
PRUNED = f"{OURS}, value only"


def load(spark, source, bootstrap, topic, schema=None, **options):
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).options(**options)
    reader = reader if schema is None else reader.schema(schema)
    return reader.option("subscribe", topic).load()


def sums(frame):
    """The amounts of the orders in `value`, by kind."""
    return dict(frame.groupBy("value.kind").agg(sf.sum("value.amount")).collect())


class Jobs:
    """The jobs of one session over one backlog."""

    def __init__(self, spark, backlog, *, has_jvm):
        self._spark = spark
        self._backlog = backlog
        self._has_jvm = has_jvm

    def _load(self, source, schema=None, **options):
        return load(self._spark, source, self._backlog.bootstrap, self._backlog.topic, schema, **options)

    def _rdd(self, **decoders):
        ranges = [OffsetRange(self._backlog.topic, p, 0, end) for p, end in enumerate(self._backlog.ends())]
        return createRDD(self._spark.sparkContext, {"bootstrap.servers": self._backlog.bootstrap}, ranges, **decoders)

    def _contest(self, name, answer, jvm, ours):
        contestants = {JVM: jvm} | ours if self._has_jvm else ours
        return Contest(name, contestants, answer, self._backlog.records, JVM)

    def count(self, limit=None):
        """Against the limit, `consume()` in as many processes as cores, if there is one."""
        contest = self._contest(
            "count",
            self._backlog.records,
            lambda: self._load("kafka").count(),
            {
                OURS: lambda: self._load(OURS).count(),
                PRUNED: lambda: self._load(OURS, "value BINARY").count(),
                "createRDD": lambda: self._rdd().count(),
            },
        )
        if limit is not None:
            contest.contestants["consume() alone"] = lambda: limit.count(self._backlog)
            contest.baseline = "consume() alone"
        return contest

    def value_bytes(self):
        def total(frame):
            return frame.selectExpr("sum(length(value))").first()[0]

        return self._contest(
            "value bytes",
            self._backlog.value_bytes,
            lambda: total(self._load("kafka")),
            {
                OURS: lambda: total(self._load(OURS)),
                PRUNED: lambda: total(self._load(OURS, "value BINARY")),
            },
        )

    def json(self):
        def parsed(frame):
            return frame.select(sf.from_json(frame["value"].cast("string"), ORDER).alias("value"))

        return self._contest(
            "JSON aggregation",
            amounts(self._backlog.records),
            lambda: sums(parsed(self._load("kafka"))),
            {
                OURS: lambda: sums(parsed(self._load(OURS))),
                PRUNED: lambda: sums(parsed(self._load(OURS, "value STRING"))),
                f"{OURS}, valueFormat=json": lambda: sums(
                    self._load(OURS, f"value STRUCT<{ORDER}>", valueFormat="json")
                ),
            },
        )

    def function(self):
        """A Python function on Arrow batches: in the worker that fetches, and after Spark's source."""

        def lengths(batch):
            return pa.RecordBatch.from_arrays([pc.binary_length(batch["value"])], names=["n"])

        def total(frame):
            return frame.selectExpr("sum(n)").first()[0]

        def after(frame):
            return frame.select("value").mapInArrow(lambda batches: map(lengths, batches), "n INT")

        transformed = source(transform=lengths, schema="n INT", columns="value BINARY", spark=self._spark)
        return self._contest(
            "a function on Arrow batches",
            self._backlog.value_bytes,
            lambda: total(after(self._load("kafka"))),
            {f"{OURS}.source": lambda: total(self._load(transformed))},
        )

    def split(self):
        """The same over one partition, where a second core helps only if the range is split."""
        schema, halves = f"value STRUCT<{ORDER}>", {"minPartitions": 2}

        def parsed(**options):
            frame = self._load("kafka", **options)
            return sums(frame.select(sf.from_json(frame["value"].cast("string"), ORDER).alias("value")))

        contest = self._contest(
            "JSON aggregation, one partition",
            amounts(self._backlog.records),
            parsed,
            {
                f"{OURS}, valueFormat=json": lambda: sums(self._load(OURS, schema, valueFormat="json")),
                f"{OURS}, in two": lambda: sums(self._load(OURS, schema, valueFormat="json", **halves)),
            },
        )
        if self._has_jvm:
            contest.contestants[f"{JVM}, in two"] = lambda: parsed(**halves)
        return contest

    def words(self, size):
        """A Python function per record, which counts its words."""

        def total(texts):
            return texts.map(lambda text: len(text.split())).sum()

        return self._of_texts("word count", word_total(self._backlog.records, size), total)

    def frequencies(self, size):
        """Counts each word: most of the work is the job's own, on both sides."""

        def total(texts):
            return sum(texts.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add).values().collect())

        return self._of_texts("word frequencies", word_total(self._backlog.records, size), total)

    def _of_texts(self, name, answer, total):
        return self._contest(
            name,
            answer,
            lambda: total(self._load("kafka").select("value").rdd.map(lambda row: row[0].decode())),
            {"createRDD": lambda: total(self._rdd().map(lambda pair: pair[1]))},
        )
