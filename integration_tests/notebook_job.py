"""What people do in a notebook, in a process of its own: `test_notebooks.py` calls one of these functions by name.

Each prints the records that its SqlSink holds in the end, as JSON.
"""

import importlib
import json
import os
import signal
import sqlite3
import sys
import tempfile
import threading
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import ConfigError
from kafka_direct.sinks import KafkaSink, SqlSink
from kafka_direct.testing import create_topic, produce, wait_until

SERVERS = os.environ["SERVERS"]
FOLDER = Path(tempfile.mkdtemp())
CHECKPOINT, DATABASE = str(FOLDER / "checkpoint"), FOLDER / "saved.db"
PATIENCE = 200
TOPIC = create_topic(SERVERS)


def new_context():
    conf = SparkConf().setMaster("local[2]").setAppName("notebook").set("spark.ui.enabled", "false")
    return SparkContext(conf=conf.set("spark.log.level", "OFF").set("spark.ui.showConsoleProgress", "false"))


def new_sink():
    return SqlSink(lambda: sqlite3.connect(DATABASE, timeout=60), name="saved")


def insert(cursor, rows):
    cursor.executemany("INSERT INTO saved VALUES (?)", [(value,) for _, value in rows])


def saved():
    with sqlite3.connect(DATABASE) as connection:
        return sorted(value for (value,) in connection.execute("SELECT value FROM saved"))


def started(sc, sink, interval=0.5):
    """The cell that makes a stream and starts it."""
    ssc = StreamingContext(sc, interval)
    ssc.checkpoint(CHECKPOINT)
    params = {"bootstrap.servers": SERVERS, "auto.offset.reset": "earliest"}
    sys.modules["kafka_direct"].createDirectStream(ssc, [TOPIC], params, name="orders").foreachRDD(
        lambda rdd: sink.save(rdd, insert)
    )
    ssc.start()
    return ssc


def write(*values):
    """Write records, and wait until they are saved."""
    produce(SERVERS, TOPIC, list(values))
    wait_until(lambda: set(values) <= set(saved()), f"{values} in {saved()}", timeout=PATIENCE)


def interrupted():
    """A cell that waits is interrupted; the next one stops the stream, and the one before is run again."""
    sc, sink = new_context(), new_sink()
    ssc = started(sc, sink)

    def interrupt():
        write("before")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        ssc.awaitTermination()
    except KeyboardInterrupt:
        write("after the interrupt")
    ssc.stop(False)
    ssc = started(sc, sink)
    write("in the second run")
    ssc.stop(True, True)


def loaded_anew():
    """The package is reloaded under a stream, and imported anew, with all modules, under one and after it."""
    sc, sink = new_context(), new_sink()
    ssc = started(sc, sink)
    write("before")
    importlib.reload(sys.modules["kafka_direct"])
    write("after the reload")
    ssc.stop(False)
    ssc = started(sc, sink, interval=3600)  # whose batches would import what is dropped now
    for name in [name for name in sys.modules if name.startswith("kafka_direct")]:
        del sys.modules[name]
    anew = importlib.import_module("kafka_direct")
    try:
        anew.createDirectStream(StreamingContext(sc, 0.5), [TOPIC], {"bootstrap.servers": SERVERS})
    except anew.ConfigError as error:
        assert "imported anew while a StreamingContext runs" in str(error), error  # noqa: PT017
    else:
        raise AssertionError("not refused")
    ssc.stop(False)
    importlib.import_module("kafka_direct.sinks")
    ssc = started(sc, sys.modules["kafka_direct.sinks"].SqlSink(sink.store._connect, name="saved"))
    write("by the second import")
    ssc.stop(True, True)


def unpinned():
    """PYSPARK_PIN_THREAD=false, where Python's threads are not Java's: no direct stream, but a query and its sink."""
    assert os.environ["PYSPARK_PIN_THREAD"] == "false"
    sc = new_context()
    try:
        started(sc, new_sink())
    except ConfigError as error:
        assert "needs PYSPARK_PIN_THREAD=true" in str(error), error  # noqa: PT017
    else:
        raise AssertionError("not refused")
    produce(SERVERS, TOPIC, ["one", "two"])

    from pyspark.sql import SparkSession

    out = create_topic(SERVERS)
    session = SparkSession(sc)
    options = {"kafka.bootstrap.servers": SERVERS, "subscribe": TOPIC, "startingOffsets": "earliest"}
    frame = session.readStream.format("kafka_direct").options(**options).schema("value STRING").load()
    query = (
        frame.writeStream.foreachBatch(KafkaSink({"bootstrap.servers": SERVERS}, name=out, topic=out).save_batch)
        .option("checkpointLocation", str(FOLDER / "query"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE)
    options |= {"subscribe": out, "kafka.isolation.level": "read_committed"}
    assert session.read.format("kafka_direct").options(**options).load().count() == 2
    sc.stop()


if __name__ == "__main__":
    with sqlite3.connect(DATABASE) as database:
        database.execute("CREATE TABLE saved (value TEXT)")
    globals()[sys.argv[1]]()
    print(json.dumps(saved()))
