"""Counts the words since the beginning with `updateStateByKey`, and goes on counting after a restart.

    spark-submit examples/stateful_word_count.py localhost:9092 words /tmp/stateful-word-count

The folder holds the checkpoint: Spark's, with the counts, and the offset log. `getOrCreate` makes the context of it, if
there is one. Kill the program, start it again, and the counts are those of all records. A number as the last argument
ends the program after so many batches.
"""

import sys

from _run import run
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream


def total(new, before):
    return (before or 0) + sum(new)


def create(brokers, topic, folder):
    print("a new context")
    ssc = StreamingContext(SparkContext.getOrCreate(SparkConf().setAppName("stateful word count")), 1)
    ssc.checkpoint(folder)
    stream = createDirectStream(ssc, [topic], {"bootstrap.servers": brokers, "auto.offset.reset": "earliest"})
    words = stream.flatMap(lambda record: record[1].split())
    words.map(lambda word: (word, 1)).updateStateByKey(total).pprint()
    return ssc


def main(brokers, topic, folder, batches=None):
    ssc = StreamingContext.getOrCreate(folder, lambda: create(brokers, topic, folder))
    run(ssc, batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
