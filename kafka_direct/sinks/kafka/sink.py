"""`KafkaSink`: from Kafka to Kafka, records and source offsets in one transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from kafka_direct.broker import Cluster, KafkaRecord
from kafka_direct.checkpointed import persisted, public
from kafka_direct.errors import ConfigError
from kafka_direct.offsets import OffsetRange
from kafka_direct.options import ClientParams, Subscription, refuse_literal_secrets
from kafka_direct.sinks.lineage import batch_id_of, find_source, save_ranges
from kafka_direct.sinks.output import Output, describe_driver

from .transaction import TransactionalOutput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark import RDD
    from pyspark.sql import DataFrame

    from kafka_direct.offsets import Loss, TopicPartition


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
        self._target = TransactionalOutput(params=params, name=name, topic=topic)
        self._output = Output(name)

    def positions(self, topics: Any) -> dict[TopicPartition, int]:
        """Where the output stands in the topics of the stream, which are given as to createDirectStream.

        Give it to that as `fromOffsets`, and no checkpoint is needed.
        """
        partitions, _ = Cluster(self._target.params).require(Subscription.parse(topics))
        return self._target.positions(partitions)

    def save_partitions(self, rdd: RDD[Any]) -> int:
        """Write each partition in the workers, in one transaction with the offsets of its range.

        Returns how many partitions were written: those that have records and are not in the output already.

        Raises:
            ConfigError: the partitions of `rdd` are not the batch's ranges any more.
            Fenced: another driver writes this output.
            OutOfOrder: an earlier batch failed; it runs again, and this one after it, when the job is restarted.
        """
        batch = find_source(rdd)
        target = self._ready(batch)
        unknown = target.find_unknown(batch.offsetRanges())
        if unknown:  # the first batch of a partition: noted before anything can fail
            rdd.ctx.parallelize(unknown, len(unknown)).foreach(target.note_start)

        batch_id = batch_id_of(batch)

        def save(range_: OffsetRange, losses: list[Loss], records: Iterator[Any]) -> bool:
            return target.write(target.writer_of(range_), [range_], records, losses=losses, batch_id=batch_id)

        written = save_ranges(rdd, save, batch)
        self._output.note_saved(batch)
        return written

    def save(self, rdd: RDD[Any], *, source: RDD[Any] | None = None) -> bool:
        """Collect the batch, and write it on the driver in one transaction with all its offsets.

        `source` is the stream's RDD if `rdd` was shuffled or aggregated. True if it was written, False if the batch is
        in the output already or has no records: then nothing is computed.

        Raises:
            Fenced, OutOfOrder: as `save_partitions`.
        """
        batch = find_source(rdd if source is None else source)
        target = self._ready(batch)
        ranges, losses = batch.offsetRanges(), batch.losses()
        for range_ in target.find_unknown(ranges):
            target.note_start(range_)
        if target.is_saved(ranges, losses):
            return False
        is_written = target.write(
            target.driver_writer, ranges, rdd.collect(), losses=losses, batch_id=batch_id_of(batch)
        )
        self._output.note_saved(batch)
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
        target = self._claimed()
        target.require_owner()
        # A query with a new checkpoint counts its batches anew: they are others, so the group is another one.
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        batches = replace(target, group=f"{target.name}-batches" + (f"-{query}" if query else ""))
        batch = OffsetRange(target.topic, 0, batch_id, batch_id + 1)  # counted like offsets
        return batches.write(target.driver_writer, [batch], map(_record, frame.toLocalIterator()), batch_id=batch_id)

    def _ready(self, batch: Any) -> TransactionalOutput:
        """The output, once it is certain that this driver may write this batch."""
        if batch.groupId() == self._target.name:
            raise ConfigError(
                f"the stream's group.id and the sink's name are both {self._target.name!r}, and the stream would "
                "move the sink's offsets; give the sink another name."
            )
        self._output.refuse_second(batch)
        target = self._claimed()
        target.require_owner()
        return target

    def _claimed(self) -> TransactionalOutput:
        def claim() -> TransactionalOutput:
            Cluster(self._target.params).require(Subscription.parse([self._target.topic]))
            return self._target.claim(describe_driver())

        return cast("TransactionalOutput", self._output.once(claim))

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> KafkaSink:
        sink = cls.__new__(cls)
        target = TransactionalOutput(params=state["params"], name=state["name"], topic=state["topic"])
        vars(sink).update(_target=target, _output=state["output"])
        return sink

    def __reduce__(self) -> tuple[Any, ...]:
        target = self._target
        refuse_literal_secrets(target.params)  # what pickles this is Spark's checkpoint
        state = {"params": target.params, "name": target.name, "topic": target.topic, "output": self._output}
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
