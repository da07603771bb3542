"""The classic mistakes of a login: one sentence, with the broker's address, within seconds. On a real secured Kafka."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyspark.streaming import StreamingContext

from kafka_direct import OffsetRange, createDirectStream, createRDD
from kafka_direct.broker import Cluster
from kafka_direct.broker.write.writer import write_records
from kafka_direct.errors import BrokerUnavailable, ConfigError
from kafka_direct.options import ClientParams, Subscription
from kafka_direct.testing import Certificates, LocalKafka, Security, create_topic, produce, wait_until

SECONDS = 45  # on a busy machine; alone it takes two to four
SASL_SSL = "scram-sha-512"


@pytest.fixture(scope="module")
def kafka():
    with LocalKafka(security=Security()) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def topic(kafka):
    topic = create_topic(kafka.direct_servers)
    produce(kafka.direct_servers, topic, ["a", "b", "c"])
    return topic


@pytest.fixture
def certificates(kafka):
    """Those of the cluster; the good one is shown again when a test has ended."""
    yield kafka.certificates
    kafka.replace_certificate(kafka.certificates.server)


def without(params, *parts):
    return {key: value for key, value in params.items() if not any(part in key for part in parts)}


def at(kafka, how, **given):
    return {"bootstrap.servers": kafka.login(how, **given)["bootstrap.servers"]}


def told(params, topic="any"):
    """What is said where a stream starts, and that it is said soon."""
    begun = time.monotonic()
    with pytest.raises((BrokerUnavailable, ConfigError)) as refused:
        Cluster(ClientParams.parse(params)).require_available(Subscription.parse([topic]))
    assert time.monotonic() - begun < SECONDS
    text = str(refused.value)
    assert params["bootstrap.servers"] in text
    assert "\n" not in text
    return text


MISTAKES = {
    "a wrong password of SCRAM": (
        lambda k: k.login(SASL_SSL) | {"sasl.password": "wrong"},
        "due to invalid credentials with SASL mechanism SCRAM-SHA-512); correct sasl.username and sasl.password",
    ),
    "a wrong password of PLAIN": (
        lambda k: k.login("plain") | {"sasl.password": "wrong"},
        "refuses the login (Authentication failed: Invalid username or password); correct sasl.username",
    ),
    "an unknown authority": (
        lambda k: without(k.login(SASL_SSL), "ssl.ca"),
        "not signed by a known authority (self-signed certificate in certificate chain); set ssl.ca.location, or",
    ),
    "no certificate of the client": (
        lambda k: without(k.login("mtls"), "certificate", "key"),
        "wants a certificate of this client, and there is none",
    ),
    "TLS against a plain port": (
        lambda k: k.login("ssl") | {"bootstrap.servers": k.direct_servers},
        "speaks no TLS and security.protocol is SSL; set it to PLAINTEXT",
    ),
    "plain text against a port of TLS": (
        lambda k: at(k, "ssl"),
        "speaks TLS and security.protocol is PLAINTEXT; set it to SSL",
    ),
    "SASL against a port without it": (
        lambda k: k.login(SASL_SSL, tls=False) | {"bootstrap.servers": k.direct_servers},
        "takes no login and security.protocol is SASL_PLAINTEXT; set it to PLAINTEXT",
    ),
    "no login against a port with SASL": (
        lambda k: at(k, SASL_SSL, tls=False),
        "asks for a login and security.protocol is PLAINTEXT; set it to SASL_PLAINTEXT, and sasl.mechanisms to one",
    ),
    "TLS alone against a port with SASL": (
        lambda k: k.login("ssl") | at(k, SASL_SSL),
        "asks for a login and security.protocol is SSL; set it to SASL_SSL",
    ),
    "a mechanism that is not there": (
        lambda k: (
            without(k.login(SASL_SSL), "sasl.")
            | {"sasl.mechanisms": "OAUTHBEARER", "enable.sasl.oauthbearer.unsecure.jwt": "true"}
            | {"sasl.oauthbearer.config": "principal=alice"}
        ),
        "has no OAUTHBEARER; set sasl.mechanisms to one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_has_its_sentence(kafka, mistake):
    """What happened, where, and what to do."""
    params, sentence = MISTAKES[mistake]

    assert sentence in told(params(kafka))


@pytest.mark.parametrize("other", ["expired", "of another authority"])
def test_a_certificate_of_the_client_that_is_refused(kafka, tmp_path, other):
    """The broker does not say why: both reasons are named."""
    if other == "expired":
        made = kafka.certificates.make_client("alice", name="alice-expired", is_expired=True)
    else:
        made = Certificates(tmp_path / "other", ["alice"]).users["alice"]
    params = kafka.login("mtls") | {"ssl.certificate.location": str(made.pem), "ssl.key.location": str(made.key)}

    assert "refuses this client's certificate (certificate unknown): it has expired, or is not signed by" in told(
        params
    )


def test_a_certificate_of_the_broker_that_is_refused(kafka, certificates):
    """Librdkafka says the same for both."""
    kafka.replace_certificate(certificates.make_server("elsewhere", hosts=["kafka.elsewhere.test"]))
    assert "is for another host (IP address mismatch" in told(kafka.login(SASL_SSL))
    kafka.replace_certificate(certificates.make_server("expired", is_expired=True))
    assert "has expired; renew it on the broker" in told(kafka.login(SASL_SSL))


def test_a_token_that_is_not_had(kafka):
    """confluent-kafka alone says that it was not set within ten seconds."""
    params = without(kafka.login(SASL_SSL), "sasl.") | {"sasl.mechanisms": "OAUTHBEARER"}
    params |= {"oauth_cb": "kafka_direct.login.jwt_file:token", "sasl.oauthbearer.config": "file=/no/such/token"}

    with pytest.raises(ConfigError, match=r"oauth_cb gave no token: ConfigError: the token's file '/no/such/token'"):
        Cluster(ClientParams.parse(params)).require_available(Subscription.parse(["any"]))


@pytest.mark.parametrize("server", ["broker:kafka", "broker:", "broker:0", "broker:99999"])
def test_a_port_that_is_no_number_is_refused(server):
    """Librdkafka takes it for port 0."""
    with pytest.raises(ConfigError, match="whose port is no number from 1 to 65535"):
        ClientParams.parse({"bootstrap.servers": f"good:9092,{server}"})


WRONG = "refuses the login (Authentication failed"


def test_each_door_says_it(kafka, topic, sc, session, tmp_path):
    """DStream, RDD, batch, query, both ways to write; workers too, where they are the first to ask."""
    params = kafka.login(SASL_SSL) | {"sasl.password": "wrong"}
    options = {f"kafka.{key}": value for key, value in params.items()}
    ssc = StreamingContext(sc, 1)
    frame = session.createDataFrame([("x",)], "value string")

    def query():
        stream = session.readStream.format("kafka_direct").options(**options, subscribe=topic).load().writeStream
        stream.format("noop").option("checkpointLocation", str(tmp_path)).start().awaitTermination(60)

    doors = {
        "stream": lambda: createDirectStream(ssc, [topic], params),
        "rdd": lambda: createRDD(sc, params, [OffsetRange(topic, 0, 0, 3)]),
        "batch": lambda: session.read.format("kafka_direct").options(**options, subscribe=topic).load().collect(),
        "query": query,
        "write": lambda: frame.write.format("kafka_direct").options(**options, topic=topic).mode("append").save(),
        "worker": lambda: write_records(ClientParams.parse(params), [(topic, {"value": b"x"})]),
    }
    found = {}
    for name, door in doors.items():
        begun = time.monotonic()
        with pytest.raises(Exception) as refused:
            door()
        found[name] = (WRONG in str(refused.value), time.monotonic() - begun < 3 * SECONDS)
    ssc.stop(False)

    assert found == dict.fromkeys(doors, (True, True))


PROGRAM = """
import sys
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext
from kafka_direct import createDirectStream

sc = SparkContext(conf=SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false"))
ssc = StreamingContext(sc, 1)
params = dict(pair.split("=", 1) for pair in sys.argv[2:])
createDirectStream(ssc, [sys.argv[1]], params).foreachRDD(lambda rdd: None)
"""
LINES = 70  # Spark's own start takes ten, and the way through the program a dozen calls


def test_a_failed_start_fits_on_a_screen(kafka, topic):
    """The sentence is the last line, and librdkafka's complaint is there once, not hundreds of times."""
    params = kafka.login(SASL_SSL) | {"sasl.password": "wrong"}
    given = [f"{key}={value}" for key, value in params.items()]
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, topic, *given], capture_output=True, text=True, check=False, timeout=120
    )
    lines = (ended.stdout + ended.stderr).splitlines()

    assert ended.returncode != 0
    assert WRONG in lines[-1]
    assert len([line for line in lines if line.startswith("FAIL")]) <= 2
    assert len(lines) <= LINES, "\n".join(lines)
    assert "wrong" not in ended.stdout + ended.stderr.replace(PROGRAM, "")


def test_certificates_are_replaced_under_a_stream(kafka, topic, sc, certificates, tmp_path):
    """An authority that comes in the place of the old one is read where clients are built anew, without a restart."""
    ca, other = tmp_path / "ca.pem", Certificates(tmp_path / "other")
    ca.write_bytes(certificates.ca_pem.read_bytes())
    params = kafka.login(SASL_SSL) | {"ssl.ca.location": str(ca), "auto.offset.reset": "latest"}
    ssc, seen, go_on = StreamingContext(sc, 1), [], threading.Event()

    def count(rdd):
        seen.extend(rdd.map(lambda record: record[1]).collect())
        go_on.set()

    createDirectStream(ssc, [topic], params).foreachRDD(count)
    ssc.start()
    try:
        assert go_on.wait(60)
        produce(kafka.direct_servers, topic, ["before"])
        wait_until(lambda: "before" in seen, "the first record", timeout=60)
        kafka.replace_certificate(other.server)
        os.utime(ca)
        new = Path(f"{ca}.new")
        new.write_bytes(other.ca_pem.read_bytes())
        new.replace(ca)
        kafka.kill(1)  # else the connections that are there stay
        kafka.start_node(1)
        produce(kafka.direct_servers, topic, ["after"])
        wait_until(lambda: "after" in seen, "the record after it", timeout=120)
    finally:
        ssc.stop(False, False)
