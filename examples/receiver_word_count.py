"""Counts the words of each batch, with the receivers of PySpark 2.4. Only the import line is new.

    spark-submit examples/receiver_word_count.py localhost:9092 words

Two receivers of one group share the topic, as old jobs do it to read faster: each record is in their union once. The
group's position is in Kafka, so the next run goes on where this one ended. A number as the last argument ends the
program after so many batches.
"""

import sys
from operator import add

from _run import run
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct.compat import KafkaUtils  # was: from pyspark.streaming.kafka import KafkaUtils


def main(brokers, topic, batches=None):
    ssc = StreamingContext(SparkContext.getOrCreate(SparkConf().setAppName("receiver word count")), 1)
    params = {"metadata.broker.list": brokers, "auto.offset.reset": "smallest"}  # the brokers, beside ZooKeeper
    receivers = [
        KafkaUtils.createStream(ssc, "localhost:2181", f"words-of-{topic}", {topic: 1}, params) for _ in range(2)
    ]
    lines = ssc.union(*receivers).map(lambda record: record[1])
    counts = lines.flatMap(lambda line: line.split()).map(lambda word: (word, 1)).reduceByKey(add)
    counts.pprint()
    run(ssc, batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
