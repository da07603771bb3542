"""The sinks of two_drivers_job.py, and the moments of a sink's work at which a driver is held."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from kafka_direct.broker.write.transactional_producer import TransactionalProducer
from kafka_direct.sinks import FileSink, KafkaSink, SqlSink
from kafka_direct.sinks.files.store import Attempt
from kafka_direct.sinks.sql.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

IN_A_TASK = "in a task"  # between two of its records, with its transaction open
# Of a driver that writes itself: its transaction has the rows and is open; the folder has all its files.
MOMENTS = (
    (Session, "require_moved", "in a transaction"),
    (TransactionalProducer, "commit", "in a transaction"),
    (Attempt, "_write_content", "in a publish"),
)


class Gate:
    """Holds one task, in another process than its driver; two named pipes lead there and back."""

    def __init__(self, folder: str) -> None:
        self._here, self._go_on, self._once = (Path(folder, name) for name in ("here", "go-on", "once"))

    def serve(self, reach: Callable[[str], None]) -> None:
        """In the driver: wait until a task is held, and let it go on when `reach` returns."""
        for pipe in (self._here, self._go_on):
            os.mkfifo(pipe)
        self._here.read_text()
        reach(IN_A_TASK)
        self._go_on.write_text("go on")

    def hold(self) -> None:
        """In a task: wait, if this is the first one and its driver serves."""
        if self._go_on.exists():
            with suppress(FileExistsError):
                self._once.touch(exist_ok=False)
                self._here.write_text("here")
                self._go_on.read_text()


def held(gate: Gate, rows: Iterable[Any]) -> Iterator[str]:
    for number, (partition, offset) in enumerate(rows):
        yield f"{partition} {offset}"
        if number == 5:
            gate.hold()


def insert(cursor: Any, rows: Iterable[str]) -> None:
    for row in rows:
        cursor.execute("INSERT INTO results VALUES (%s)", (row,))


def output_of(given: Any) -> Callable[[Any], object] | None:
    """What a round saves its batches with."""
    if given.sink is None:
        return None
    kind, where = given.sink
    gate = Gate(given.output)
    lines = partial(_lines, gate)
    if kind.startswith("sql"):
        sql = SqlSink(partial(psycopg.connect, where), name="output")
        save = sql.save if kind == "sql" else sql.save_partitions
        return lambda rdd: save(lines(rdd), insert)
    if kind.startswith("kafka"):
        kafka = KafkaSink({"bootstrap.servers": given.bootstrap}, where, name=f"output-{where}")
        write = kafka.save if kind == "kafka" else kafka.save_partitions
        return lambda rdd: write(lines(rdd).map(_record))
    files = FileSink(where)

    def publish(rdd: Any) -> None:
        with files.batch(rdd) as folder:
            lines(rdd).saveAsTextFile(folder)

    return publish


def _lines(gate: Gate, rdd: Any) -> Any:
    return rdd.mapPartitions(partial(held, gate))


def _record(line: str) -> tuple[str, str]:
    return line, line
