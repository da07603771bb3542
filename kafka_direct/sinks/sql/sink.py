"""`SqlSink`: results and the offsets they come from, in one transaction of the user's database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kafka_direct.checkpointed import persisted, public
from kafka_direct.sinks.lineage import find_source, save_ranges
from kafka_direct.sinks.output import Output, describe_driver

from .store import TABLE, SqlOffsetStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark import RDD

    from kafka_direct.offsets import Loss, OffsetRange, TopicPartition

    from .store import Claim, Connect


@public("kafka_direct.sinks")
class SqlSink:
    """Saves each record of a stream once into a database, whatever is killed, run again or run twice.

        sink = SqlSink(lambda: psycopg.connect("dbname=shop"), name="orders")

        def insert(cursor, rows):
            cursor.executemany("INSERT INTO orders VALUES (%s, %s)", rows)

        stream.foreachRDD(lambda rdd: sink.save(rdd, insert))

    `connect` opens a DB-API connection with autocommit off; it is called on the driver and, for `save_partitions`, in
    the workers. `name` stands for the output: one driver at a time may write it, and the newest one does.
    """

    def __init__(self, connect: Connect, name: str, *, table: str = TABLE, paramstyle: str | None = None) -> None:
        self.store = SqlOffsetStore(connect, name, table=table, paramstyle=paramstyle)
        self._output = Output(name)

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> SqlSink:
        sink = cls.__new__(cls)
        vars(sink).update(store=state["store"], _output=state["output"])
        return sink

    def __reduce__(self) -> tuple[Any, ...]:
        return persisted(self, "sql-sink", {"store": self.store, "output": self._output})

    def positions(self) -> dict[TopicPartition, int]:
        """Where the output stands: give it to createDirectStream as `fromOffsets`, and no checkpoint is needed."""
        return self.store.load()

    def save(self, rdd: RDD[Any], write: Callable[[Any, list[Any]], object], *, source: RDD[Any] | None = None) -> bool:
        """Collect the batch, and call `write(cursor, rows)` on the driver in one transaction with its offsets.

        `source` is the stream's RDD if `rdd` was shuffled or aggregated. True if it was written, False if the batch is
        in the output already or has no records: then nothing is computed.

        Raises:
            Fenced: another driver writes this output.
            OutOfOrder: an earlier batch failed; it runs again, and this one after it, when the job is restarted.
        """
        batch = find_source(rdd if source is None else source)
        self._output.refuse_second(batch)
        claim, ranges, losses = self._claim(), batch.offsetRanges(), batch.losses()
        if self.store.is_saved(claim, ranges, losses):
            return False
        rows = rdd.collect()  # before the transaction, which holds locks
        is_written = self.store.save(claim, ranges, lambda cursor: write(cursor, rows), losses)
        self._output.note_saved(batch)
        return is_written

    def save_partitions(self, rdd: RDD[Any], write: Callable[[Any, Iterable[Any]], object]) -> int:
        """Call `write(cursor, rows)` in the workers, per partition, in one transaction with the offsets of its range.

        Returns how many partitions were written: those that have records and are not in the output already.

        Raises:
            ConfigError: the partitions of `rdd` are not the batch's ranges any more.
            Fenced, OutOfOrder: as `save`; out of a worker they come in the text of Spark's error.
        """
        batch = find_source(rdd)
        self._output.refuse_second(batch)
        claim, store = self._claim(), self.store
        store.note_start(claim, batch.offsetRanges())

        def save(range_: OffsetRange, losses: list[Loss], rows: Iterator[Any]) -> bool:
            return store.save(claim, [range_], lambda cursor: write(cursor, rows), losses)

        written = save_ranges(rdd, save, batch)
        self._output.note_saved(batch)
        return written

    def _claim(self) -> Claim:
        """This driver's right to write, taken from whoever had it; a driver out of a checkpoint takes its own."""
        return cast("Claim", self._output.once(lambda: self.store.claim(describe_driver())))
