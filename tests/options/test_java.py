"""Java's keys: translated where that is exact, refused with the way out where it is not."""

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.options.client_params import ClientParams
from kafka_direct.options.java.jaas import LoginModule, parse_jaas
from kafka_direct.options.java.key import REFUSED, translate_java_keys
from kafka_direct.options.java.login import FILE_TOKEN, GCP_TOKEN, MSK_TOKEN, msk_region

SERVERS = {"bootstrap.servers": "broker:9092"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
IAM = "software.amazon.msk.auth.iam.IAMLoginModule"
IAM_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
GCP_HANDLER = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
MSK_SERVERS = "b-1.shop.a1.c2.kafka.eu-west-1.amazonaws.com:9098"
URL = "https://login/token"
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
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem", "ssl.truststore.password": "env:P"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.truststore.location": "/ca.jks", "ssl.truststore.password": "env:P"},
            {"ssl.truststore.location": "/ca.jks", "ssl.truststore.password": "env:P"},
        ),
        (
            {"ssl.truststore.location": "/ca.p12", "ssl.truststore.type": "PKCS12"},
            {"ssl.truststore.location": "/ca.p12"},
        ),
        ({"ssl.keystore.location": "/me.jks", "ssl.keystore.type": "JKS"}, {"ssl.keystore.location": "/me.jks"}),
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
        ({"sasl.client.callback.handler.class": "x.Y"}, "oauth_cb"),
        ({"sasl.login.callback.handler.class": "x.Y"}, "oauth_cb"),
        ({"sasl.oauthbearer.jwt.retriever.class": "x.Y"}, "oauth_cb"),
        ({"sasl.jaas.config": "env:"}, "without a name"),
        ({"sasl.jaas.config": f"{OAUTH} required;"}, "sasl.oauthbearer.token.endpoint.url"),
        ({"sasl.jaas.config": f'{PLAIN} required username="a";'}, "no username or no password"),
        (
            {"sasl.jaas.config": f'{SCRAM} required username="a" password="hunter2" tokenauth="true";'},
            "delegation token",
        ),
        ({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;"}, "keyTab"),
        ({"sasl.jaas.config": "my.own.LoginModule required;"}, "librdkafka does not have"),
        ({"ssl.truststore.location": "/ca.jks", "ssl.ca.location": "/ca.pem"}, "one setting"),
        ({"ssl.truststore.type": "BKS"}, "JKS, PKCS12 and PEM"),
        ({"ssl.keystore.type": "BKS"}, "JKS, PKCS12 and PEM"),
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
    ("java", "librdkafka"),
    [
        (
            {"sasl.jaas.config": f'kafkashaded.{PLAIN} required username="a" password="b" serviceName="kafka";'},
            {"sasl.username": "a", "sasl.password": "b"},
        ),
        (
            {"sasl.jaas.config": f'{PLAIN} required username="$ConnectionString" password="Endpoint=sb://x/;Key=k=";'},
            {"sasl.username": "$ConnectionString", "sasl.password": "Endpoint=sb://x/;Key=k="},
        ),
        (
            {
                "sasl.jaas.config": f'{OAUTH} required clientId="c" clientSecret="s" scope="a b" '
                'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-2";',
                "sasl.login.callback.handler.class": OAUTH_HANDLER,
                "sasl.oauthbearer.token.endpoint.url": URL,
                "sasl.login.refresh.window.factor": "0.8",
            },
            {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.scope": "a b",
                "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
                "sasl.oauthbearer.token.endpoint.url": URL,
            },
        ),
        (
            {
                "sasl.jaas.config": f'kafkashaded.{OAUTH} required clientId="c" clientSecret="s";',
                "sasl.login.callback.handler.class": OAUTH_HANDLER.replace("oauthbearer.", "oauthbearer.secured."),
                "sasl.oauthbearer.token.endpoint.url": URL,
            },
            {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.token.endpoint.url": URL,
            },
        ),
        (
            {
                "sasl.jaas.config": f"{OAUTH} required;",
                "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.x.JwtBearerJwtRetriever",
                "sasl.oauthbearer.assertion.template.file": "/t",
                "sasl.oauthbearer.token.endpoint.url": URL,
            },
            {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
                "sasl.oauthbearer.assertion.jwt.template.file": "/t",
                "sasl.oauthbearer.token.endpoint.url": URL,
            },
        ),
        (
            {"sasl.jaas.config": f"{OAUTH} required;", "sasl.oauthbearer.token.endpoint.url": "file:///run/token"},
            {"oauth_cb": FILE_TOKEN, "sasl.oauthbearer.config": "file=/run/token"},
        ),
        (
            {"sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="alice";'},
            {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=alice"},
        ),
        (
            {
                "bootstrap.servers": MSK_SERVERS,
                "sasl.mechanism": "AWS_MSK_IAM",
                "sasl.jaas.config": f'{IAM} required awsProfileName="shop" awsDebugCreds=true;',
                "sasl.client.callback.handler.class": IAM_HANDLER,
            },
            {
                "bootstrap.servers": MSK_SERVERS,
                "sasl.mechanisms": "OAUTHBEARER",
                "oauth_cb": MSK_TOKEN,
                "sasl.oauthbearer.config": "region=eu-west-1 awsProfileName=shop",
            },
        ),
        (
            {"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": f'shadedmskiam.{IAM} required awsRoleArn="arn:1";'},
            {
                "sasl.mechanisms": "OAUTHBEARER",
                "oauth_cb": MSK_TOKEN,
                "sasl.oauthbearer.config": "awsRoleArn=arn:1",
            },
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{OAUTH} required;",
                "sasl.login.callback.handler.class": "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
            },
            {"sasl.mechanisms": "OAUTHBEARER", "oauth_cb": MSK_TOKEN},
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{OAUTH} required;",
                "sasl.login.callback.handler.class": GCP_HANDLER,
            },
            {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": GCP_TOKEN},
        ),
        (
            {
                "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
                'keyTab="/k.keytab" principal="me@SHOP" serviceName="kafka";',
            },
            {
                "sasl.kerberos.keytab": "/k.keytab",
                "sasl.kerberos.principal": "me@SHOP",
                "sasl.kerberos.service.name": "kafka",
            },
        ),
        ({"sasl.jaas.config": "env:JAAS"}, {"sasl.jaas.config": "env:JAAS"}),
    ],
)
def test_logins_of_java_are_translated(java, librdkafka):
    """Each login that people bring arrives in librdkafka's words, whatever package its class was moved to."""
    assert translate_java_keys(java) == librdkafka


@pytest.mark.parametrize(
    "java",
    [
        {"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": f"{IAM} required;"},
        {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": GCP_HANDLER},
        {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "my.own.Handler"},
        {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f'{OAUTH} required clientId="c" clientSecret="s";'},
    ],
)
def test_an_oauth_cb_of_the_user_wins(java):
    """Whatever Java's configuration names, the user's own function gets the token."""
    found = translate_java_keys(java | {"oauth_cb": "shop.tokens:fetch"})

    assert found["oauth_cb"] == "shop.tokens:fetch"
    assert found.get("sasl.mechanisms", found.get("sasl.mechanism")) == "OAUTHBEARER"
    assert found.keys() <= {"oauth_cb", "sasl.mechanism", "sasl.mechanisms"}


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        ("b-2.shop.1a.c4.kafka.us-gov-west-1.amazonaws.com:9098", "us-gov-west-1"),
        ("b-1-public.shop.1a.c4.kafka.eu-central-1.amazonaws.com:9198", "eu-central-1"),
        ("boot-1a.c1.kafka-serverless.ap-south-1.amazonaws.com:9098", "ap-south-1"),
        ("b-1.shop.1a.c4.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.shop.example:9098", None),
        ("kafka.eu-west-1.amazonaws.com.evil.example:9098", None),
    ],
)
def test_the_region_stands_in_the_brokers_names(servers, region):
    """As Java's library reads it from the host."""
    assert msk_region(servers) == region


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="alice" password="secret";', {"username": "alice", "password": "secret"}),
        (f"{PLAIN} required\n  username='alice'\n  password='s';\n", {"username": "alice", "password": "s"}),
        (f'{PLAIN} REQUIRED password="b" username="a" ;', {"password": "b", "username": "a"}),
        (f"{PLAIN} required username=alice password=secret;", {"username": "alice", "password": "secret"}),
        (f'{PLAIN} required username="" password="; = // \'";', {"username": "", "password": "; = // '"}),
        (
            rf'{PLAIN} required username="a\"b" password="c\\d\n\101\7";',
            {"username": 'a"b', "password": "c\\d\nA\7"},
        ),
        (f'// c1\n{PLAIN} /* c2\n*/ required password="env:P";// end', {"password": "env:P"}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_jaas_is_read_as_java_reads_it(text, options):
    """Quotes, escapes, comments and the order of options are those of Java's tokenizer."""
    assert parse_jaas(text) == LoginModule("PlainLoginModule", options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (f"{PLAIN}", "no control flag"),
        (f'{PLAIN} username="a" password="hunter2";', "no control flag"),
        (f'{PLAIN} required username="a" password="hunter2"', "semicolon"),
        (f'{PLAIN} required username="a" password "hunter2";', "not of the form"),
        (f'{PLAIN} required username="a" password=;', "not of the form"),
        (f'{PLAIN} required username="a" ="hunter2";', "not of the form"),
        (f'{PLAIN} required username="a" password="hunter2;', "not closed"),
        (f'{PLAIN} required username="a" password="hunter2"; {SCRAM} required;', "more than one login module"),
    ],
)
def test_other_jaas_is_refused_without_showing_it(text, said):
    """Text that holds a password is never repeated, whatever is wrong with it."""
    with pytest.raises(ConfigError) as refused:
        parse_jaas(text)

    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_jaas_may_be_a_reference_as_a_whole(monkeypatch):
    """It is translated where the client is built, and until then nothing of it is in the parameters."""
    monkeypatch.setenv("JAAS", f'{OAUTH} required clientId="c" clientSecret="hunter2";')
    java = {"sasl.login.callback.handler.class": OAUTH_HANDLER, "sasl.oauthbearer.token.endpoint.url": URL}

    params = ClientParams.parse(SERVERS | java | {"sasl.jaas.config": "env:JAAS"})

    assert "hunter2" not in str(params.entries)
    assert params.literal_secrets() == ()
    assert params.for_admin() == SERVERS | {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "c",
        "sasl.oauthbearer.client.secret": "hunter2",
        "sasl.oauthbearer.token.endpoint.url": URL,
    }


def test_a_password_from_jaas_stays_a_secret():
    """The translated password is a secret like one given under its own key."""
    params = ClientParams.parse(SERVERS | {"sasl.jaas.config": f'{PLAIN} required username="a" password="hunter2";'})

    assert params.literal_secrets() == ("sasl.password",)
    assert "hunter2" not in repr(params)


def test_a_comment_in_jaas_ends_where_java_ends_it():
    """A carriage return alone is the end of a line, too."""
    params = ClientParams.parse(
        {
            "bootstrap.servers": "b:9092",
            "sasl.jaas.config": 'x.PlainLoginModule required // x\r username="a" password="b";',
        }
    )

    assert dict(params.entries)["sasl.username"] == "a"


@pytest.mark.parametrize("between", ["\n", " ", ""])
def test_pem_in_one_line_gets_its_lines(between):
    """Java takes it so, and a properties file has it so; OpenSSL wants lines."""
    pem = f"-----BEGIN CERTIFICATE-----{between}{'YWJj' * 20}{between}-----END CERTIFICATE-----{between}"
    params = SERVERS | {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem * 2}
    lines = ClientParams.parse(params).resolved()["ssl.ca.pem"].splitlines()

    assert [len(line) for line in lines] == [27, 64, 16, 25] * 2
