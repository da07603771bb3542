"""Counts the words of each batch, and shows which records of Kafka it has read.

    spark-submit examples/direct_word_count.py localhost:9092 words

A number as the last argument ends the program after so many batches.
"""

import sys
from operator import add

from _run import run
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream


def show_ranges(rdd):
    for r in rdd.offsetRanges():
        print(f"{r.topic} {r.partition}: {r.fromOffset} to {r.untilOffset}")


def main(brokers, topic, batches=None):
    ssc = StreamingContext(SparkContext.getOrCreate(SparkConf().setAppName("direct word count")), 1)
    stream = createDirectStream(ssc, [topic], {"bootstrap.servers": brokers, "auto.offset.reset": "earliest"})
    stream.foreachRDD(show_ranges)
    words = stream.flatMap(lambda record: record[1].split())
    words.map(lambda word: (word, 1)).reduceByKey(add).pprint()
    run(ssc, batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
