"""`LocalKafka(security=...)`: each login works, in librdkafka's words and in Java's, and nobody else comes in."""

import json
import time
from functools import partial
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from py4j.protocol import Py4JJavaError

from kafka_direct.testing import (
    Certificates,
    KafkaStartError,
    LocalKafka,
    LocalOidc,
    Security,
    create_topic,
    produce,
    wait_until,
)
from kafka_direct.testing.gateway import java_gateway
from kafka_direct.testing.jar import kafka_jars

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
SASL = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
LOGINS = [(how, True) for how in ("ssl", "mtls", *SASL)] + [(how, False) for how in SASL]
STORES = [(how, store) for how in ("ssl", "mtls") for store in ("PKCS12", "JKS", "PEM")]
TOKEN_SECONDS = 20


@pytest.fixture(scope="module")
def oidc():
    with LocalOidc(expiry_seconds=TOKEN_SECONDS) as server:
        yield server


@pytest.fixture(scope="module")
def secured(oidc):
    """One cluster for all logins, where alice may do everything, and bob nothing that is not named."""
    with LocalKafka(security=Security(users=USERS, acls=True, superusers=["alice"], oidc=oidc)) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def trio():
    with LocalKafka(nodes=3, security=Security(acls=True)) as kafka:
        yield kafka


@pytest.fixture
def topic(secured):
    return create_topic(secured.direct_servers)


@pytest.fixture(scope="module")
def java_write(oidc):
    """Write a record with Kafka's own Java client, configured as by a file of properties."""
    options = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=off", *oidc.java_options)
    with java_gateway(*options, classpath=f"{kafka_jars()}/*") as gateway:
        yield partial(write_by_java, gateway)


def write_by_java(gateway, params, topic, value):
    clients = gateway.jvm.org.apache.kafka.clients.producer
    serializer = "org.apache.kafka.common.serialization.StringSerializer"

    common = {"key.serializer": serializer, "value.serializer": serializer, "max.block.ms": "30000"}
    properties = gateway.jvm.java.util.Properties()
    text = "".join(f"{key}={value}\n" for key, value in (common | params).items())
    properties.load(gateway.jvm.java.io.StringReader(text))
    producer = clients.KafkaProducer(properties)
    try:
        producer.send(clients.ProducerRecord(topic, value)).get()
    finally:
        producer.close()


def write(params, topic, *values):
    return produce(params["bootstrap.servers"], topic, values, config=params, timeout=30)


def read(params, topic, count):
    consumer = Consumer(params | {"group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        return [message.value() for message in consumer.consume(count, 30)]
    finally:
        consumer.close()


def first_error(params):
    """The first error that a client is told."""
    errors = []
    consumer = Consumer(params | {"group.id": "none", "error_cb": errors.append, "log_level": 0})
    try:
        consumer.subscribe(["none"])
        wait_until(lambda: consumer.poll(0.1) or errors, "an error", timeout=30)
        return errors[0]
    finally:
        consumer.close()


def refusal(params, topic):
    """The name of the error with which a record is refused; None if it is taken."""
    try:
        write(params, topic, b"x")
    except KafkaException as error:
        return error.args[0].name()
    return None


@pytest.mark.parametrize(("how", "tls"), LOGINS)
def test_each_login_writes_and_reads(secured, topic, how, tls):
    """What `login` gives is all that a plain client needs."""
    params = secured.login(how, tls=tls)

    write(params, topic, b"a", b"b")

    assert read(params, topic, 2) == [b"a", b"b"]


@pytest.mark.parametrize(("how", "tls"), LOGINS)
def test_each_login_is_what_java_takes(secured, topic, java_write, how, tls):
    """What `java_login` gives is all that Kafka's own client needs."""
    java_write(secured.java_login(how, tls=tls), topic, "a")

    assert read(secured.login("ssl"), topic, 1) == [b"a"]


@pytest.mark.parametrize(("how", "store"), STORES)
def test_java_reads_each_form_of_store(secured, topic, java_write, how, store):
    """Truststores and keystores are what Java calls PKCS12, JKS and PEM."""
    java_write(secured.java_login(how, store=store), topic, "a")

    assert read(secured.login("ssl"), topic, 1) == [b"a"]


def test_an_encrypted_key_is_read_with_its_password(secured, topic):
    """The key of mTLS is there with a password too, and as a PKCS12 store."""
    alice, params = secured.certificates.users["alice"], secured.login("mtls")
    encrypted = params | {"ssl.key.location": str(alice.encrypted_key), "ssl.key.password": "store-secret"}
    store = {key: value for key, value in params.items() if not key.startswith(("ssl.key.", "ssl.certificate."))}
    store |= {"ssl.keystore.location": str(alice.p12), "ssl.keystore.password": "store-secret"}

    write(encrypted, topic, b"a")
    write(store, topic, b"b")

    assert read(params, topic, 2) == [b"a", b"b"]


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("how", ["plain", "scram-sha-256", "scram-sha-512"])
def test_a_wrong_password_is_refused(secured, how, tls):
    """The password decides, and not the name alone."""
    error = first_error(secured.login(how, tls=tls) | {"sasl.password": "wrong"})

    assert error.code() == KafkaError._AUTHENTICATION


def test_java_is_refused_with_a_wrong_password(secured, topic, java_write):
    """So is Kafka's own client: it does log in."""
    params = secured.java_login("scram-sha-256")
    params["sasl.jaas.config"] = params["sasl.jaas.config"].replace("alice-secret", "wrong")

    with pytest.raises(Py4JJavaError) as caught:
        java_write(params, topic, "a")

    assert "SaslAuthenticationException" in caught.value.java_exception.toString()


def test_mtls_wants_a_certificate(secured, tmp_path):
    """A client without one, or with one of another authority, does not come in."""
    none = secured.login("ssl") | {"bootstrap.servers": secured.login("mtls")["bootstrap.servers"]}
    foreign = Certificates(tmp_path / "foreign", ["alice"]).users["alice"]
    other = secured.login("mtls") | {"ssl.certificate.location": str(foreign.pem), "ssl.key.location": str(foreign.key)}

    # TLS 1.3 lets a client believe that it is in: the refusal is the first thing that it reads.
    assert "alert bad certificate" in first_error(none).str()
    assert "alert" in first_error(other).str()


@pytest.mark.parametrize("how", ["mtls", *SASL])
def test_each_login_is_a_user_with_rights(secured, topic, how):
    """Who logs in as bob may do what bob may, and no longer than that."""
    bob = secured.login(how, "bob")
    assert refusal(bob, topic) == "TOPIC_AUTHORIZATION_FAILED"

    secured.allow("bob", "WRITE", "topic", topic)
    assert refusal(bob, topic) is None

    secured.revoke("bob", "WRITE", "topic", topic)
    assert refusal(bob, topic) == "TOPIC_AUTHORIZATION_FAILED"


def test_deny_wins(secured, topic):
    """What is forbidden stays so, whatever allows it, until that is taken back."""
    bob = secured.login("plain", "bob")
    secured.allow("bob", "ALL", "topic", topic[:-1], pattern="prefixed")
    assert refusal(bob, topic) is None

    secured.deny("bob", "WRITE", "topic", topic)
    assert refusal(bob, topic) == "TOPIC_AUTHORIZATION_FAILED"

    secured.revoke("bob", "WRITE", "topic", topic)
    assert refusal(bob, topic) is None
    secured.revoke("bob", "ALL", "topic", topic[:-1], pattern="prefixed")


def test_a_running_client_gets_new_tokens(secured, topic):
    """A client outlives its tokens: it is told no error, and reads what is written after two lives of a token."""
    errors = []
    params = secured.login("oauthbearer") | {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(params | {"error_cb": errors.append})
    try:
        consumer.subscribe([topic])
        until = time.monotonic() + 2.2 * TOKEN_SECONDS
        wait_until(lambda: consumer.poll(0.2) or time.monotonic() > until, "the end of tokens", timeout=60)
        write(secured.login("ssl"), topic, b"late")
        message = consumer.poll(30)
    finally:
        consumer.close()

    assert message.value() == b"late"
    assert errors == []


def test_an_expired_token_ends_a_connection(secured, oidc, topic):
    """A client that goes on with its old token is refused once that has expired; before that it writes."""
    form = urlencode({"grant_type": "client_credentials", "client_id": "alice", "client_secret": "any"}).encode()
    errors, token = [], json.load(urlopen(oidc.token_url, data=form, timeout=30))["access_token"]
    params = secured.login("oauthbearer")
    kept = {key: value for key, value in params.items() if not key.startswith("sasl.oauthbearer.")}
    kept |= {"oauth_cb": lambda _: (token, time.time() + 3600), "error_cb": errors.append, "log_level": 0}
    producer = Producer(kept)
    producer.produce(topic, b"a")

    assert producer.flush(30) == 0
    assert errors == []
    wait_until(lambda: producer.poll(0.1) or any("invalid_token" in e.str() for e in errors), "a refusal", timeout=90)
    assert errors[0].code() == KafkaError._AUTHENTICATION


@pytest.mark.parametrize("mistake", [{"is_expired": True}, {"hosts": ["elsewhere.test"]}])
def test_a_bad_certificate_is_shown_at_once(secured, mistake):
    """An expired certificate, or one of another host, is shown to the next client; the good one can be put back."""
    good = secured.certificates.server
    secured.replace_certificate(secured.certificates.make_server("-".join(mistake), **mistake))
    try:
        errors = [first_error(secured.login(how)) for how in ("ssl", "plain")]
    finally:
        secured.replace_certificate(good)

    assert [error.code() for error in errors] == [KafkaError._SSL, KafkaError._SSL]
    assert AdminClient(secured.login("ssl")).list_topics(timeout=30).brokers


def test_several_nodes_know_the_same_users(trio):
    """Each of three nodes has every login, by whichever of them a client comes."""
    topic = create_topic(trio.direct_servers, partitions=3, replication=3)
    trio.allow("bob", "WRITE", "topic", topic)
    for how in ("mtls", "plain", "scram-sha-512"):
        params = trio.login(how, "bob")
        for partition, server in enumerate(params["bootstrap.servers"].split(",")):
            produce(server, topic, [b"x"], partition=partition, config=params | {"bootstrap.servers": server})


def test_a_right_holds_on_every_node_when_it_is_given(trio):
    """Clients of each of three nodes see a topic come and go at once, and the controller lets them create or not."""
    topic, params = create_topic(trio.direct_servers), trio.login("plain", "bob")
    admins = [AdminClient(params | {"bootstrap.servers": server}) for server in params["bootstrap.servers"].split(",")]

    def seen():
        return [topic in admin.list_topics(timeout=30).topics for admin in admins]

    def created(name):
        try:
            admins[0].create_topics([NewTopic(name, 1)])[name].result(30)
        except KafkaException as error:
            return error.args[0].name()
        return None

    assert seen() == [False] * 3
    for turn in range(20):
        trio.allow("bob", "DESCRIBE", "topic", topic)
        assert seen() == [True] * 3
        trio.revoke("bob", "DESCRIBE", "topic", topic)
        assert seen() == [False] * 3
        trio.allow("bob", "CREATE", "topic", "own-", pattern="prefixed")
        assert created(f"own-{turn}") is None
        trio.revoke("bob", "CREATE", "topic", "own-", pattern="prefixed")
        assert created(f"own-{turn}-again") == "TOPIC_AUTHORIZATION_FAILED"


def test_rights_need_acls():
    """Without ACLs everybody may do everything, and a right that is given is refused in a sentence."""
    with LocalKafka(security=Security()) as kafka:
        topic = create_topic(kafka.direct_servers)

        assert refusal(kafka.login("plain", "bob"), topic) is None
        with pytest.raises(KafkaStartError, match=r"start it with Security\(acls=True\)"):
            kafka.allow("bob", "READ", "topic", topic)
