"""`SqlSink`: results and the offsets they come from, in one transaction of the user's database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.checkpointed import persisted, public
from kafka_direct.offsets.store.claims import describe_driver
from kafka_direct.sinks.batch import KafkaBatch, collect
from kafka_direct.sinks.output import Output

from .literal_secret import refuse_secrets_in
from .rows import Rows
from .store import TABLE, SqlOffsetStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark import RDD

    from kafka_direct.offsets import SavedPositions
    from kafka_direct.sinks.output import Claim

    from .store import Connect


@public("kafka_direct.sinks")
class SqlSink:
    """Saves each record of a stream once into a database, whatever is killed, run again or run twice.

        sink = SqlSink(lambda: psycopg.connect("dbname=shop"), name="orders")

        def insert(cursor, rows):
            cursor.executemany("INSERT INTO orders VALUES (%s, %s)", rows)

        stream.foreachRDD(lambda rdd: sink.save(rdd, insert))

    `connect` opens a DB-API connection with autocommit off; it is called on the driver and, for `save_partitions`, in
    the workers. `write` may be called again, if another transaction came first: it must leave the rows as they are.
    `name` stands for the output: one driver at a time may write it, and the newest one does.
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
        refuse_secrets_in(self.store.connect, "connect")  # what pickles this is Spark's checkpoint
        return persisted(self, "sql-sink", {"store": self.store, "output": self._output})

    def positions(self) -> SavedPositions:
        """Where the output stands: give it to createDirectStream as `fromOffsets`, and no checkpoint is needed."""
        return self.store.positions()

    def save(self, rdd: RDD[Any], write: Callable[[Any, list[Any]], object], *, source: RDD[Any] | None = None) -> bool:
        """Collect the batch, and call `write(cursor, rows)` on the driver in one transaction with its offsets.

        The batch is that of `rdd`, or of the output function that runs; elsewhere, as on another thread, `source` names
        it. True if it was written, False if the batch is in the output already or has no records: then nothing is
        computed.

        Raises:
            Fenced: another driver writes this output.
            OutOfOrder: an earlier batch failed; it runs again, and this one after it, when the job is restarted.
        """
        batch = KafkaBatch.of(rdd if source is None else source)
        self._output.refuse_second(batch.rdd)
        claim = self._claim(batch)
        if self.store.is_saved(claim, batch):
            return False
        rows = collect(rdd)  # before the transaction, which holds locks
        is_written = self.store.save(claim, batch, lambda cursor: write(cursor, list(rows)))
        self._output.note_saved(batch.rdd)
        return is_written

    def save_partitions(self, rdd: RDD[Any], write: Callable[[Any, Iterable[Any]], object]) -> int:
        """Call `write(cursor, rows)` in the workers, per partition, in one transaction with the offsets of its range.

        Returns how many partitions were written: those that have records and are not in the output already.

        Raises:
            ConfigError: the partitions of `rdd` are not the batch's ranges any more.
            Fenced, OutOfOrder: as `save`; out of a worker they come in the text of Spark's error.
        """
        batch = KafkaBatch.of(rdd, by_partition=True)
        self._output.refuse_second(batch.rdd)
        claim, store = self._claim(batch), self.store
        store.save_start(claim, batch)

        def save(part: KafkaBatch, rows: Iterator[Any]) -> bool:
            again = Rows(rows)
            return store.save(claim, part, lambda cursor: write(cursor, iter(again)), again)

        written = batch.save_parts(rdd, save)
        self._output.note_saved(batch.rdd)
        return written

    def _claim(self, batch: KafkaBatch) -> Claim:
        """This driver's claim. A driver that recovers from a checkpoint makes its own."""
        return self._output.claim(lambda: self.store.claim(describe_driver(), batch.origin.owner))
