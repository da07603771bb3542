"""`kafka-direct offsets` on a consumer group, side by side with Kafka's own kafka-consumer-groups tool."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import AdminClient
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream
from kafka_direct.testing import wait_until
from kafka_direct.testing.jar import KAFKA_VERSION, Wanted, fetched_jars, kafka_jars

HOUR_MS = 3_600_000
KAFKA_TOOLS = Wanted(
    f"kafka-tools-{KAFKA_VERSION}",
    f"kafka-tools {KAFKA_VERSION}",
    "1 MB",
    (("org.apache.kafka", "kafka-tools", KAFKA_VERSION),),
)
QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-XX:TieredStopAtLevel=1")


@pytest.fixture
def tool(kafka):
    """Run Kafka's own tool."""
    command = ["java", *QUIET, "-cp", f"{fetched_jars(KAFKA_TOOLS)}/*:{kafka_jars()}/*"]
    command += ["org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server"]

    def run(*arguments):
        call = [*command, kafka.bootstrap_servers, "--timeout", "60000", *arguments]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def described(text):
    """What `--describe` says, as the facts that `show` has: (topic, partition, committed, end, lag)."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    header = next(line for line in lines if line[0] == "GROUP")
    rows = [dict(zip(header, line, strict=False)) for line in lines[lines.index(header) + 1 :]]
    names = ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    return sorted((row["TOPIC"], *(int(row[name]) for name in names)) for row in rows)


def shown(kd, group):
    (place,) = json.loads(kd("show", "--group", group, "--output", "json").stdout)
    return [(p["topic"], p["partition"], p["committed"], p["end"], p["lag"]) for p in place["partitions"]]


def previewed(text):
    """What the tool's `--reset-offsets` prints: (topic, partition, new offset)."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    rows = lines[next(n for n, line in enumerate(lines) if line[0] == "GROUP") + 1 :]
    return sorted((row[1], int(row[2]), int(row[3])) for row in rows)


def planned(done):
    return [(p["topic"], p["partition"], p["new"]) for p in json.loads(done.stdout)["partitions"]]


def test_the_numbers_of_kafkas_tool(kd, tool, ten, kafka_produce):
    """What one sets the other shows, in both directions, verb by verb; and both would move to the same offsets."""
    group = f"group-of-{ten}"
    scope, theirs = ["--group", group, "--topic", ten], ["--reset-offsets", "--group", group, "--topic", ten]
    kd("reset", *scope, "--to-offset", "4", "--execute")
    assert described(tool("--describe", "--group", group)) == shown(kd, group) == [(ten, p, 4, 10, 6) for p in (0, 1)]
    tool(*theirs, "--shift-by", "3", "--execute")
    assert described(tool("--describe", "--group", group)) == shown(kd, group) == [(ten, p, 7, 10, 3) for p in (0, 1)]

    moment = datetime.fromtimestamp(time.time() - 4.5 * 3600, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")
    for verb in (
        ["--to-earliest"],
        ["--to-latest"],
        ["--to-current"],
        ["--to-datetime", moment],
        ["--by-duration", "PT2H30M"],
    ):
        mine = planned(kd("reset", *scope, *verb, "--output", "json"))
        assert mine == previewed(tool(*theirs, *verb, "--dry-run")), verb
    zero = planned(kd("reset", *scope, "--to-offset", "0", "--output", "json"))
    assert zero == previewed(tool(*theirs, "--to-offset", "0", "--dry-run")) == [(ten, 0, 0), (ten, 1, 0)]
    assert planned(kd("reset", *scope, "--shift-by", "0", "--output", "json")) == [(ten, 0, 7), (ten, 1, 7)]
    clamped = planned(kd("reset", *scope, "--shift-by", "100", "--clamp", "--output", "json"))
    assert clamped == previewed(tool(*theirs, "--shift-by", "100", "--dry-run"))


def test_files_of_kafkas_tool(kd, tool, ten, tmp_path):
    """What one exports the other imports, and both write the same text."""
    group, other = f"group-of-{ten}", f"other-of-{ten}"
    kd("reset", "--group", group, "--topic", ten, "--to-offset", "4", "--execute")
    mine = kd("export", "--group", group).stdout
    theirs = tool("--reset-offsets", "--export", "--dry-run", "--group", group, "--all-topics", "--to-current")
    assert sorted(csv.reader(io.StringIO(mine))) == sorted(row for row in csv.reader(io.StringIO(theirs)) if row)

    (tmp_path / "mine.csv").write_text(mine)
    tool("--reset-offsets", "--group", other, "--from-file", str(tmp_path / "mine.csv"), "--execute")
    assert shown(kd, other) == shown(kd, group)
    (tmp_path / "theirs.csv").write_text(theirs.replace(",4", ",5"))
    kd("import", "--group", other, "--from-file", tmp_path / "theirs.csv", "--execute")
    assert described(tool("--describe", "--group", other)) == [(ten, p, 5, 10, 5) for p in (0, 1)]


@pytest.mark.parametrize(
    ("protocol", "said"),
    [("classic", "stable with 1 member (night-shift on"), ("consumer", "Kafka does not let its offsets be changed")],
)
def test_group_with_members_is_refused(kafka, kd, ten, protocol, said):
    """A group in use is not moved, and the members are named if Kafka names them; when they have left, it is."""
    group = f"group-of-{ten}"
    kd("reset", "--group", group, "--topic", ten, "--to-offset", "4", "--execute")
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "client.id": "night-shift",
            "group.protocol": protocol,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([ten])
    while consumer.poll(1.0) is None:
        pass
    reset = ["--group", group, "--all-topics", "--to-earliest"]
    refused = kd("reset", *reset, "--execute", code=3)
    assert f"group {group} is in use: {said}" in refused.stderr
    if protocol == "classic":
        assert "--execute would be refused: group" in kd("reset", *reset).stderr
    kd("reset", *reset, "--execute", "--force", code=3)  # Kafka itself refuses
    assert [row[2] for row in shown(kd, group)] == [4, 4]

    consumer.close()
    kd("reset", *reset, "--execute")
    assert [row[2] for row in shown(kd, group)] == [0, 0]


def test_group_that_is_not_there(kd):
    """A misspelt group is not taken for one that has no lag."""
    assert "does not exist on Kafka, or has committed nothing" in kd("show", "--group", "orderz", code=3).stderr
    kd("export", "--group", "orderz", code=3)
    kd("reset", "--group", "orderz", "--all-topics", "--to-earliest", code=2)


def test_topic_that_is_not_there(kd, ten):
    """A partition that does not exist is named."""
    scope = ["--group", f"group-of-{ten}", "--to-earliest"]
    assert f"there is no partition {ten}-7 on Kafka" in kd("reset", *scope, "--topic", f"{ten}:7", code=2).stderr


def test_lag_in_time_and_loss(kafka, kd, ten):
    """AGE is the age of the next record to read, LOST is what retention has taken; --clamp leads out."""
    from confluent_kafka import TopicPartition as ClientPartition

    group = f"group-of-{ten}"
    kd("reset", "--group", group, "--topic", f"{ten}:0", "--to-offset", "6", "--execute")
    kd("reset", "--group", group, "--topic", f"{ten}:1", "--to-offset", "2", "--execute")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for deleted in admin.delete_records([ClientPartition(ten, 1, 5)]).values():
        deleted.result()

    first, second = json.loads(kd("show", "--group", group, "--output", "json").stdout)[0]["partitions"]
    assert 4 * HOUR_MS <= first["ageMs"] < 5.5 * HOUR_MS
    assert (first["lost"], first["cause"]) == (0, None)
    assert (second["lost"], second["cause"], second["earliest"], second["lag"]) == (3, "aged out", 5, 5)
    assert 5 * HOUR_MS <= second["ageMs"] < 6.5 * HOUR_MS
    table = kd("show", "--group", group).stdout.splitlines()
    assert table[-1].split()[2:6] == ["2", "5", "10", "5"]
    assert table[-1].endswith("3 aged out")

    stay = ["--group", group, "--all-topics", "--to-current", "--execute"]
    assert "cannot be moved to 2: the brokers have 5 to 10; add --clamp" in kd("reset", *stay, code=3).stderr
    kd("reset", *stay, "--clamp")
    assert [row[2] for row in shown(kd, group)] == [6, 5]


def test_a_stream_of_the_group(spark, kafka, kd, ten, collected):
    """A stream without a checkpoint begins where its group was moved to, and reads exactly what is after it."""
    sc, group = spark(), f"group-of-{ten}"

    def run():
        seen = len(collected.items)
        ssc = StreamingContext(sc, 0.3)
        params = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
        stream = createDirectStream(ssc, [ten], params, messageHandler=lambda m: (m.partition, m.offset))
        stream.foreachRDD(lambda rdd: collected.add(rdd.collect()))
        ssc.start()
        items = collected.wait(lambda items: any(not rows for rows in items[seen + 1 :]))
        ssc.stop(False, True)
        return sorted(row for rows in items[seen:] for row in rows)

    def both(start):
        return [(partition, offset) for partition in range(2) for offset in range(start, 10)]

    assert run() == both(0)
    for verb, start in (
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-current"], 10),
        (["--to-offset", "7"], 7),
        (["--shift-by", "-3"], 7),
        (["--by-duration", "PT2H30M"], 8),
        (["--to", "latest-4"], 6),
    ):
        kd("reset", "--group", group, "--all-topics", *verb, "--execute")
        assert run() == both(start), verb


MEMBER = """
import os
from confluent_kafka import Consumer, KafkaError
consumer = Consumer({{"bootstrap.servers": {servers!r}, "group.id": {group!r}, "enable.auto.commit": False,
                     "auto.offset.reset": "earliest", "session.timeout.ms": 6000}})
consumer.subscribe([{topic!r}])
messages = [consumer.poll(30) for _ in range(12)]
consumer.commit(message=messages[3], asynchronous=False)
os.kill(os.getpid(), 9)
"""


def test_after_kill_nine(kafka, kd, kafka_topic, kafka_produce):
    """A group whose consumer was killed is in use until its session is over; then it is moved by every verb."""
    topic, now = kafka_topic(), time.time_ns() // 1_000_000
    group = f"group-of-{topic}"
    kafka_produce(topic, [str(n) for n in range(12)], timestamps=[now - age * HOUR_MS for age in range(12, 0, -1)])
    script = MEMBER.format(servers=kafka.bootstrap_servers, group=group, topic=topic)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr[-2000:]
    scope = ["--group", group, "--all-topics"]
    refused = kd("reset", *scope, "--to-current", "--execute", code=3)
    assert "or wait until their session is over if they have crashed" in refused.stderr

    wait_until(
        lambda: kd("reset", *scope, "--to-current", "--execute", code=None).exit_code == 0,
        "the session's end",
        timeout=60,
    )
    assert shown(kd, group) == [(topic, 0, 4, 12, 8)]
    for verb, start in (
        (["--to-earliest"], 0),
        (["--to-latest"], 12),
        (["--to-offset", "7"], 7),
        (["--shift-by", "-3"], 4),
        (["--to-datetime", datetime.fromtimestamp(time.time() - 4.5 * 3600, UTC).isoformat()], 8),
        (["--by-duration", "PT2H30M"], 10),
        (["--to", "latest-4"], 8),
    ):
        kd("reset", *scope, *verb, "--execute")
        assert read_by(kafka, group, topic) == list(range(start, 12)), verb


def read_by(kafka, group, topic):
    """The offsets that the next consumer of the group reads, up to the end, without committing."""
    params = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**params, "enable.partition.eof": True, "auto.offset.reset": "error"})
    consumer.subscribe([topic])
    offsets = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        offsets.append(message.offset())
    assert message is not None, "neither records nor the end"
    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
    consumer.close()
    return offsets
