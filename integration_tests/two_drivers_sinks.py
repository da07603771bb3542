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

    from kafka_direct.offsets import SavedPositions

IN_A_TASK = "in a task"  # between two of its records, with its transaction open and a part of it written
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


def held(gate: Gate, rows: Iterable[str]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield row
        if number == 5:
            gate.hold()


def insert(gate: Gate, cursor: Any, rows: Iterable[str]) -> None:
    """Held here, as `save_partitions` reads the rows before its transaction has changed anything."""
    for row in held(gate, rows):
        cursor.execute("INSERT INTO results VALUES (%s)", (row,))


def positions_of(given: Any) -> SavedPositions:
    """Where the sink of a round stands."""
    kind, where = given.sink
    return sql_sink(where).positions() if kind.startswith("sql") else kafka_sink(given, where).positions([given.topic])


def output_of(given: Any) -> Callable[[Any], object] | None:
    """What a round saves its batches with."""
    if given.sink is None:
        return None
    kind, where = given.sink
    gate = Gate(given.output)
    if kind.startswith("sql"):
        sql = sql_sink(where)
        save = sql.save if kind == "sql" else sql.save_partitions
        return lambda rdd: save(rdd.map(_line), partial(insert, gate))
    lines = partial(_held_lines, gate)
    if kind.startswith("kafka"):
        kafka = kafka_sink(given, where)
        write = kafka.save if kind == "kafka" else kafka.save_partitions
        return lambda rdd: write(lines(rdd).map(_record))
    files = FileSink(where)

    def publish(rdd: Any) -> None:
        with files.batch(rdd) as folder:
            lines(rdd).saveAsTextFile(folder)

    return publish


def sql_sink(where: str) -> SqlSink:
    return SqlSink(partial(psycopg.connect, where), name="output")


def kafka_sink(given: Any, where: str) -> KafkaSink:
    return KafkaSink({"bootstrap.servers": given.bootstrap}, where, name=f"output-{where}")


def _held_lines(gate: Gate, rdd: Any) -> Any:
    return rdd.map(_line).mapPartitions(partial(held, gate))


def _line(row: tuple[int, int]) -> str:
    return f"{row[0]} {row[1]}"


def _record(line: str) -> tuple[str, str]:
    return line, line
