"""Queries that write to one FileSink while PYSPARK_PIN_THREAD is false; test_file_sink.py reads what each batch said.

A script: `python two_queries_job.py FOLDER`. It prints, as JSON: {query: [what the sink said, the query of the frame]}.
"""

import json
import sys
from threading import Event

from pyspark.sql import SparkSession

from kafka_direct.errors import ConfigError
from kafka_direct.sinks import FileSink
from kafka_direct.sinks.query import find_query


def main():
    folder = sys.argv[1]
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "OFF").getOrCreate()
    sink, said = FileSink(f"{folder}/out"), {}

    def start(name, others):
        """A query whose first batch waits for the others to run."""

        def save(frame, batch_id):
            if name in said:
                return
            said[name] = []
            for other in others:
                other.wait(60)
            try:
                with sink.batch(batch_id) as place:
                    session.sparkContext.parallelize([name], 1).saveAsTextFile(place)
                said[name].append("written")
            except ConfigError as error:
                said[name].append(str(error))
            said[name].append(find_query(session.sparkContext, frame) == ids[name].id)
            done[name].set()

        done[name] = Event()
        rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        writer = rows.writeStream.foreachBatch(save).option("checkpointLocation", f"{folder}/{name}")
        ids[name] = writer.start()
        return ids[name]

    ids, done = {}, {}
    for name in ("first", "second"):
        query = start(name, ())
        done[name].wait(60)
        query.stop()
    run = Event()
    both = [start(name, (run,)) for name in ("third", "fourth")]
    run.set()
    for name in ("third", "fourth"):
        done[name].wait(60)
    for query in both:
        query.stop()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
