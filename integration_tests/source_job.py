"""A query that test_source_kill.py kills: each batch is a file by its id, written whole or not at all.

The file of a batch is what a replayable sink has. Beside it stands every run of the batch, so that the test can see
whether a batch that ran again has read the same.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main(servers, topic, folder, start, *, is_last):
    from pyspark.sql import SparkSession

    from kafka_direct.pyspark_names import tells_triggers

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "ERROR").getOrCreate()
    folder = Path(folder)

    def write(frame, batch_id):
        rows = sorted([row.partition, row.offset] for row in frame.collect())
        for path in (folder / "runs" / f"{batch_id}-{time.time_ns()}", folder / "out" / str(batch_id)):
            beside = path.with_suffix(".new")
            beside.write_text(json.dumps(rows))
            beside.replace(path)

    reader = session.readStream.format("kafka_direct").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", topic).option("startingOffsets", start).option("kafka.group.id", topic)
    reader = reader.option("maxOffsetsPerTrigger", 10_000 if is_last else 37)
    reader = reader.option("trigger", "availableNow" if is_last else "processingTime")  # asked for before PySpark 4.2
    reader = reader.schema("partition INT, offset BIGINT")
    writer = reader.load().writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    # Before PySpark 4.2 a run is one batch: the unfinished one, the rest, and one more run tells the group.
    for _ in range(3 if is_last and not tells_triggers() else 1):
        (writer.trigger(availableNow=True) if is_last else writer).start().awaitTermination()
    session.stop()


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    main(*sys.argv[1:5], is_last=sys.argv[5] == "last")
