"""A direct stream on a cluster whose leaders die: nothing lost, nothing twice, no error for what passes."""

from collections import Counter

from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream, testing


def test_stream_goes_on_when_its_leader_is_killed(spark, collected, tmp_path):
    """With the leader of its partition killed and back again, the stream delivers every record once and ends well."""
    with testing.LocalKafka(nodes=3) as kafka:
        servers = kafka.bootstrap_servers
        topic = testing.create_topic(servers, partitions=1, replication=3, config={"min.insync.replicas": "1"})
        ssc = StreamingContext(spark(), 0.5)
        ssc.checkpoint(str(tmp_path))
        params = {"bootstrap.servers": servers, "auto.offset.reset": "earliest", "group.id": topic}
        stream = createDirectStream(ssc, [topic], params)
        stream.foreachRDD(lambda rdd: [collected.add(value) for _, value in rdd.collect()])
        ssc.start()
        safely = {"enable.idempotence": True, "acks": "all"}

        for round_ in range(2):
            testing.produce(servers, topic, [f"{round_}-{n}" for n in range(500)], config=safely)
            collected.wait(lambda items, wanted=1000 * round_ + 500: len(items) >= wanted, timeout=120)
            leader = kafka.leader(topic, 0)
            kafka.kill(leader)
            testing.produce(servers, topic, [f"{round_}+{n}" for n in range(500)], config=safely)
            collected.wait(lambda items, wanted=1000 * round_ + 1000: len(items) >= wanted, timeout=120)
            kafka.start_node(leader)

        ssc.stop(False, True)
    expected = {f"{round_}{sign}{n}" for round_ in range(2) for sign in "-+" for n in range(500)}
    assert Counter(collected.items) == Counter(expected)
