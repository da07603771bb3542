"""Java's keys: translated where that is exact, refused with the way out where it is not."""

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.options.client_params import ClientParams
from kafka_direct.options.jaas import Login, parse_jaas
from kafka_direct.options.java_key import REFUSED, translate_java_keys

SERVERS = {"bootstrap.servers": "broker:9092"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
KAFKA = "org.apache.kafka.common.serialization"


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        ({"fetch.max.wait.ms": "100"}, {"fetch.wait.max.ms": "100"}),
        ({"receive.buffer.bytes": 65536}, {"socket.receive.buffer.bytes": 65536}),
        ({"receive.buffer.bytes": "-1"}, {"socket.receive.buffer.bytes": 0}),
        ({"send.buffer.bytes": -1}, {"socket.send.buffer.bytes": 0}),
        ({"key.deserializer": f"{KAFKA}.StringDeserializer"}, {}),
        ({"value.deserializer": "StringDeserializer"}, {}),
        ({"exclude.internal.topics": "true"}, {}),
        (
            {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor, roundrobin"},
            {"partition.assignment.strategy": "range,roundrobin"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"ssl.endpoint.identification.algorithm": "https"}, {"ssl.endpoint.identification.algorithm": "https"}),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"}, {"ssl.ca.location": "/ca.pem"}),
        ({"ssl.truststore.type": "pem", "ssl.truststore.certificates": "-----B"}, {"ssl.ca.pem": "-----B"}),
        ({"ssl.truststore.type": "JKS"}, {}),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem", "ssl.key.password": "env:P"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem", "ssl.key.password": "env:P"},
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.key": "env:K", "ssl.keystore.certificate.chain": "C"},
            {"ssl.key.pem": "env:K", "ssl.certificate.pem": "C"},
        ),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "env:P"},
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "env:P"},
        ),
        ({"ssl.keystore.location": "/me.p12"}, {"ssl.keystore.location": "/me.p12"}),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} required username="a" password="b";'},
            {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"},
        ),
        ({"fetch.max.wait.ms": 5, "fetch.wait.max.ms": 5}, {"fetch.wait.max.ms": 5}),
        ({"client.id": "native"}, {"client.id": "native"}),
    ],
)
def test_exact_counterparts_are_translated(java, librdkafka):
    """A Java key whose meaning librdkafka has arrives under librdkafka's name."""
    assert translate_java_keys(java) == librdkafka


@pytest.mark.parametrize(
    ("java", "said"),
    [
        ({"key.deserializer": f"{KAFKA}.ByteArrayDeserializer"}, "keyDecoder=None"),
        ({"value.deserializer": f"{KAFKA}.ByteArrayDeserializer"}, "valueDecoder=None"),
        ({"value.deserializer": "io.confluent.KafkaAvroDeserializer"}, "pass a Python function as valueDecoder"),
        ({"request.timeout.ms": 1}, "socket.timeout.ms"),
        ({"default.api.timeout.ms": 1}, "socket.timeout.ms"),
        ({"max.poll.records": 1}, "maxRatePerPartition"),
        ({"interceptor.classes": "x.Y"}, "messageHandler"),
        ({"value.serializer": "x.Y"}, "leave the key out"),
        ({"partitioner.class": "x.Y"}, "set partitioner"),
        ({"buffer.memory": 1}, "queue.buffering.max.kbytes"),
        ({"exclude.internal.topics": "false"}, "name internal topics one by one"),
        ({"partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor"}, "leave the key out"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, "oauth_cb"),
        ({"sasl.client.callback.handler.class": "x.Y"}, "oauth_cb"),
        ({"sasl.jaas.config": "env:JAAS"}, "sasl.username and sasl.password, each as a reference"),
        ({"ssl.truststore.location": "/ca.jks"}, "keytool -exportcert -rfc -keystore /ca.jks"),
        ({"ssl.truststore.location": "/ca.jks", "ssl.truststore.type": "JKS"}, "set ssl.ca.location"),
        ({"ssl.truststore.location": "/ca.pem"}, "if it is a PEM file, set ssl.ca.location to it"),
        ({"ssl.truststore.location": "/ca.p12", "ssl.truststore.type": "PKCS12"}, "openssl pkcs12 -in /ca.p12"),
        ({"ssl.truststore.password": "hunter2"}, "leave the key out"),
        ({"ssl.keystore.location": "/me.jks"}, "keytool -importkeystore -srckeystore /me.jks"),
        ({"ssl.keystore.location": "/me", "ssl.keystore.type": "JKS"}, "keytool -importkeystore"),
        ({"ssl.keystore.type": "BKS"}, "PEM and PKCS12"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.password": "hunter2"}, "ssl.key.password"),
        ({"ssl.protocol": "TLSv1.3"}, "OpenSSL"),
        ({"fetch.max.wait.ms": 5, "fetch.wait.max.ms": 6}, "one setting and differ"),
        ({"ssl.keystore.key": "hunter2", "ssl.key.pem": "hunter3"}, "one setting and differ"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_the_way_out(java, said):
    """The error names the key and what to do instead, and shows no secret."""
    with pytest.raises(ConfigError) as refused:
        ClientParams.parse(SERVERS | java)

    assert said in str(refused.value)
    assert any(key in str(refused.value) for key in java)
    assert "hunter" not in str(refused.value)


@pytest.mark.parametrize("key", sorted(REFUSED))
def test_each_refused_key_says_what_to_do(key):
    """No Java key ends in a bare 'unknown key'."""
    with pytest.raises(ConfigError, match="is a key of the Java client"):
        translate_java_keys({key: "x"})


@pytest.mark.parametrize(
    ("text", "login"),
    [
        (f'{PLAIN} required username="alice" password="secret";', Login("alice", "secret")),
        (f"{SCRAM} required\n  username='alice'\n  password='secret';\n", Login("alice", "secret")),
        (f'{SCRAM} REQUIRED password="b" username="a" ;', Login("a", "b")),
        (f"{PLAIN} required username=alice password=secret;", Login("alice", "secret")),
        (f'{PLAIN} required username="" password="; = // \'";', Login("", "; = // '")),
        (rf'{PLAIN} required username="a\"b" password="c\\d\n\101\7";', Login('a"b', "c\\d\nA\7")),
        (f'// c1\n{PLAIN} /* c2\n*/ required username="a" password="env:P";// end', Login("a", "env:P")),
    ],
)
def test_jaas_is_read_as_java_reads_it(text, login):
    """Quotes, escapes, comments and the order of options are those of Java's tokenizer."""
    assert parse_jaas(text) == login


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "give sasl.mechanisms, sasl.username and sasl.password"),
        ("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", "sasl.kerberos"),
        ("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;", "oauth_cb"),
        ("software.amazon.msk.auth.iam.IAMLoginModule required;", "aws-msk-iam-sasl-signer-python"),
        ("my.own.LoginModule required;", "librdkafka does not have"),
        (f"{PLAIN}", "no control flag"),
        (f'{PLAIN} username="a" password="hunter2";', "no control flag"),
        (f'{PLAIN} required username="a" password="hunter2"', "semicolon"),
        (f'{PLAIN} required username="a" password "hunter2";', "not of the form"),
        (f'{PLAIN} required username="a" password=;', "not of the form"),
        (f'{PLAIN} required username="a" ="hunter2";', "not of the form"),
        (f'{PLAIN} required username="a" password="hunter2;', "not closed"),
        (f'{PLAIN} required username="a";', "must have a username and a password"),
        (f'{SCRAM} required username="a" password="hunter2" tokenauth="true";', "no other option"),
        (f'{PLAIN} required username="a" password="hunter2"; {SCRAM} required;', "more than one login module"),
    ],
)
def test_other_jaas_is_refused_without_showing_it(text, said):
    """Text that holds a password is never repeated, whatever is wrong with it."""
    with pytest.raises(ConfigError) as refused:
        parse_jaas(text)

    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_password_from_jaas_stays_a_secret():
    """The translated password is a secret like one given under its own key."""
    params = ClientParams.parse(SERVERS | {"sasl.jaas.config": f'{PLAIN} required username="a" password="hunter2";'})

    assert params.literal_secrets() == ("sasl.password",)
    assert "hunter2" not in repr(params)
