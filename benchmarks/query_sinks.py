"""What `transactional` costs a query: the same batches written with it and without it, in turns, in one run.

    make bench-sinks

A batch is 20,000 records of 150 bytes in each of 2 partitions. The time of a batch is Spark's own, `addBatch` of its
progress; the first two batches of a run warm up. Medians over all runs of a kind.
"""

import argparse
import statistics
import tempfile

from pyspark.sql import SparkSession

from kafka_direct.testing import cluster, create_topic, produce

PARTITIONS, RECORDS, BATCHES, WARM = 2, 20_000, 7, 2


def run(session, servers, source, options):
    """The milliseconds of each batch of one run of a query, to the end of the topic."""
    target = create_topic(servers, partitions=PARTITIONS)
    reader = session.readStream.format("kafka_direct").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", PARTITIONS * RECORDS).load().select("key", "value")
    writer = frame.writeStream.format("kafka_direct").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", target).options(**options)
    with tempfile.TemporaryDirectory() as folder:
        query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [p for p in query.recentProgress if p.numInputRows]
    assert sum(p.numInputRows for p in progress) == PARTITIONS * RECORDS * BATCHES
    return [p.durationMs["addBatch"] for p in progress[WARM:]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "ERROR").getOrCreate()
    with cluster() as kafka:
        servers = kafka.bootstrap_servers
        source = create_topic(servers, partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            produce(servers, source, ["x" * 150] * (RECORDS * BATCHES), partition=partition)
        kinds = {"plain": {}, "once": {"transactional": "bench"}}
        times = {kind: [] for kind in kinds}
        for _ in range(rounds):
            for kind, options in kinds.items():
                times[kind] += run(session, servers, source, options)
        medians = {kind: statistics.median(found) for kind, found in times.items()}
        for kind, median in medians.items():
            ratio = median / medians["plain"]
            print(f"{kind:<12} {median:6.0f} ms  {ratio:5.2f}  ({len(times[kind])} batches of {PARTITIONS * RECORDS})")
    session.stop()


if __name__ == "__main__":
    main()
