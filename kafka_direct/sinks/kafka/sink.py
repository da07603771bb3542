"""`KafkaSink`: from Kafka to Kafka, records and source offsets in one transaction."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from kafka_direct.broker import Cluster, KafkaRecord
from kafka_direct.checkpointed import persisted, public
from kafka_direct.connect import is_connect, refuse_connect
from kafka_direct.errors import BrokerUnavailable, ConfigError
from kafka_direct.offsets.store.claims import describe_driver
from kafka_direct.options import ClientParams, Subscription, refuse_literal_secrets
from kafka_direct.sinks.batch import KafkaBatch, collect
from kafka_direct.sinks.output import Output
from kafka_direct.sinks.query import find_query

from .query_checkpoint import is_reset
from .sources import require_sources
from .store import KafkaStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark import RDD
    from pyspark.sql import DataFrame

    from kafka_direct.offsets import LogOwner, SavedPositions, TopicPartition

    from .claim import KafkaClaim

# How long `positions` waits for a transaction that is open, before it takes the output over: one that is being
# committed is committed in less.
OPEN_SECONDS = 5.0


@public("kafka_direct.sinks")
class KafkaSink:
    """Writes each record of a stream once into a topic, for readers with `isolation.level=read_committed`.

        sink = KafkaSink({"bootstrap.servers": "broker:9092"}, "enriched", name="enrich")
        stream.foreachRDD(lambda rdd: sink.save_partitions(rdd.map(enrich)))

    Elements are `(key, value)` or `KafkaRecord`. `name` stands for the output: its progress is the offsets of the
    consumer group of that name, and its transactional.ids begin with it. One driver at a time may write it, and the
    newest one does.
    """

    def __init__(self, kafkaParams: Mapping[str, Any], topic: str, name: str) -> None:
        params = ClientParams.parse(kafkaParams)
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"name={name!r} names the output: it begins its transactional.ids and is its group.")
        if name.endswith(("-driver", "-batches")):
            raise ConfigError(f"name={name!r} ends like a group that an output has beside its own; give another.")
        params.for_transactions(name)  # refuses what excludes transactions
        Subscription.parse([topic])
        self._store = KafkaStore(params=params, name=name, topic=topic)
        self._output = Output(name)
        self._sources: set[TopicPartition] = set()

    def positions(self, topics: Any) -> SavedPositions:
        """Where the output stands in the topics of the stream, which are given as to createDirectStream.

        Give it to that as `fromOffsets`, and no checkpoint is needed. If the driver before has been writing for some
        seconds, because it is frozen or was killed a moment ago, this one takes the output over now.
        """
        partitions, _ = Cluster(self._store.params).require(Subscription.parse(topics))
        with suppress(BrokerUnavailable):
            return self._store.positions(partitions, seconds=OPEN_SECONDS)
        self._store.end_open(self._claim(), partitions)
        return self._store.positions(partitions)

    def save_partitions(self, rdd: RDD[Any]) -> int:
        """Write each partition in the workers, in one transaction with the offsets of its range.

        Returns how many partitions were written: those that have records and are not in the output already.

        Raises:
            ConfigError: the partitions of `rdd` are not the batch's ranges any more.
            Fenced: another driver writes this output.
            OutOfOrder: an earlier batch failed; it runs again, and this one after it, when the job is restarted.
        """
        batch, store = KafkaBatch.of(rdd, by_partition=True), self._store
        claim = self._claim_for(batch)
        store.take_over(claim, batch)

        def save(part: KafkaBatch, records: Iterator[Any]) -> bool:
            return store.save_part(claim, part, records)

        written = batch.save_parts(rdd, save)
        self._output.note_saved(batch.rdd)
        return written

    def save(self, rdd: RDD[Any], *, source: RDD[Any] | None = None) -> bool:
        """Collect the batch, and write it on the driver in one transaction with all its offsets.

        The batch is that of `rdd`, or of the output function that runs; elsewhere, as on another thread, `source` names
        it. True if it was written, False if the batch is in the output already or has no records: then nothing is
        computed.

        Raises:
            Fenced, OutOfOrder: as `save_partitions`.
        """
        batch, store = KafkaBatch.of(rdd if source is None else source), self._store
        claim = self._claim_for(batch)
        store.take_over(claim, batch)
        if store.is_saved(claim, batch):
            return False
        is_written = store.save_whole(claim, batch, collect(rdd))
        self._output.note_saved(batch.rdd)
        return is_written

    def save_batch(self, frame: DataFrame, batch_id: int) -> bool:
        """The function for `writeStream.foreachBatch`: write a DataFrame on the driver, in one transaction per batch.

        Its columns are those of Spark's own sink: value, and key, topic, partition, headers or timestamp if there are
        any. False if the output has this batch.
        """
        columns = frame.columns
        if "value" not in columns or not set(columns) <= set(KafkaRecord._fields):
            raise ConfigError(
                f"a DataFrame for Kafka has the column value, and maybe {', '.join(KafkaRecord._fields[1:])}; it has "
                f"{', '.join(columns)}: select these."
            )
        if is_connect(frame):
            raise refuse_connect(
                "KafkaSink.save_batch",
                "write the query with writeStream.format('kafka_direct') and the option transactional, which writes "
                "each row once there too.",
            )
        # A query with a new checkpoint counts its batches from 0 again, so progress is kept per query.
        query = find_query(frame.sparkSession.sparkContext, frame)
        if query is None:
            raise ConfigError("save_batch is for foreachBatch, and no query runs here; write a batch with frame.write.")
        records = map(_record, frame.toLocalIterator())
        was_reset = partial(is_reset, frame.sparkSession, query)
        return self._store.save_query_batch(self._claim(), query, batch_id, records, was_reset)

    def _claim_for(self, batch: KafkaBatch) -> KafkaClaim:
        """This driver's claim, once it is certain that the driver may write this batch."""
        if batch.group == self._store.name:
            raise ConfigError(
                f"the stream's group.id and the sink's name are both {self._store.name!r}, and the stream would "
                "move the sink's offsets; give the sink another name."
            )
        self._output.refuse_second(batch.rdd)
        if unknown := {range_.topicPartition() for range_ in batch.ranges} - self._sources:
            require_sources(self._store.params, self._store.name, unknown)
            self._sources |= unknown
        return self._claim(batch.origin.owner)

    def _claim(self, log: LogOwner | None = None) -> KafkaClaim:
        """This driver's claim, if no newer driver has one. A driver out of a checkpoint makes its own."""

        def take() -> KafkaClaim:
            Cluster(self._store.params, needs="READ and WRITE").require(Subscription.parse([self._store.topic]))
            return self._store.drivers.claim(describe_driver(), time.time(), log)

        claim = cast("KafkaClaim", self._output.claim(take))
        if claim.log is None and log is not None:  # claimed before the log was known, to see where the output stands
            claim = cast("KafkaClaim", self._output.claim(take, again=claim))
        self._store.drivers.hold(claim, time.time())
        return claim

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> KafkaSink:
        sink = cls.__new__(cls)
        store = KafkaStore(params=state["params"], name=state["name"], topic=state["topic"])
        vars(sink).update(_store=store, _output=state["output"], _sources=set())
        return sink

    def __reduce__(self) -> tuple[Any, ...]:
        store = self._store
        refuse_literal_secrets(store.params)  # what pickles this is Spark's checkpoint
        state = {"params": store.params, "name": store.name, "topic": store.topic, "output": self._output}
        return persisted(self, "kafka-sink", state)


def _record(row: Any) -> KafkaRecord:
    fields: dict[str, Any] = {
        name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.asDict().items()
    }
    if fields.get("headers") is not None:
        fields["headers"] = [(header[0], None if header[1] is None else bytes(header[1])) for header in row.headers]
    if fields.get("timestamp") is not None:
        fields["timestamp"] = round(row.timestamp.timestamp() * 1000)
    return KafkaRecord(**fields)
