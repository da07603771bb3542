"""What brokers and clients are told of a secured cluster: settings and parameters, without one that runs."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AclPermissionType

from kafka_direct.errors import ConfigError
from kafka_direct.testing import KafkaStartError, LocalKafka, LocalProxy
from kafka_direct.testing.acl import Acl, is_found
from kafka_direct.testing.certificates import Certificate
from kafka_direct.testing.login import Logins
from kafka_direct.testing.node import Node, server_properties
from kafka_direct.testing.security import LISTENERS, Security

FOLDER = Path("/made")
CERTIFICATES = SimpleNamespace(
    ca_pem=FOLDER / "ca.pem",
    truststore_p12=FOLDER / "truststore.p12",
    truststore_jks=FOLDER / "truststore.jks",
    server=Certificate(FOLDER, "server"),
    users={"alice": Certificate(FOLDER, "alice")},
)
OIDC = SimpleNamespace(
    issuer="http://oidc/kafka",
    token_url="http://oidc/kafka/token",
    jwks_url="http://oidc/kafka/jwks",
    audience="kafka",
    scope="kafka",
    java_options=("-Dallowed",),
)
SERVERS = {"SSL": "ssl:1", "MTLS": "mtls:1", "SASL_SSL": "sasl:1", "SASL_PLAINTEXT": "plain:1"}
USERS = {"alice": "alice-secret"}
TLS = {"ssl.ca.location": "/made/ca.pem"}
TRUST = {"ssl.truststore.type": "PKCS12", "ssl.truststore.location": "/made/truststore.p12"}
TRUST |= {"ssl.truststore.password": "store-secret"}


@pytest.fixture
def logins():
    return Logins(Security(users=USERS, oidc=OIDC), CERTIFICATES, SERVERS)


def properties(text):
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_node_listens_for_each_login():
    """Each listener has its port and its protocol beside the plain ones, which stay as they are."""
    ports = {name: 9000 + n for n, name in enumerate(LISTENERS)}
    node = Node(number=1, port=1, controller_port=2, direct_port=3, secured_ports=ports)
    plain = Node(number=1, port=1, controller_port=2, direct_port=3)

    secured = properties(server_properties(node, [node], FOLDER, {}))
    before = properties(server_properties(plain, [plain], FOLDER, {}))

    assert secured["listeners"] == before["listeners"] + (
        ",SSL://127.0.0.1:9000,MTLS://127.0.0.1:9001,SASL_SSL://127.0.0.1:9002,SASL_PLAINTEXT://127.0.0.1:9003"
    )
    assert secured["listener.security.protocol.map"] == before["listener.security.protocol.map"] + (
        ",SSL:SSL,MTLS:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
    )


def test_brokers_ask_for_what_was_given():
    """Without ACLs nobody is a super user, and without a token server there is no OAUTHBEARER."""
    settings = Security(users=USERS).settings(CERTIFICATES)

    assert "super.users" not in settings
    assert settings["ssl.keystore.location"] == "/made/server.p12"
    for listener in ("sasl_ssl", "sasl_plaintext"):
        sasl = f"listener.name.{listener}."
        assert settings[sasl + "sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
        assert settings[sasl + "plain.sasl.jaas.config"].endswith(' required user_alice="alice-secret";')
    assert Security(users=USERS).format_options() == (
        "--add-scram",
        'SCRAM-SHA-256=[name="alice",password="alice-secret"]',
        "--add-scram",
        'SCRAM-SHA-512=[name="alice",password="alice-secret"]',
    )


def test_brokers_ask_the_token_server_for_its_keys():
    """The server's name and audience are compared, with no tolerance for a token that has expired."""
    security = Security(users=USERS, acls=True, superusers=["alice"], oidc=OIDC)
    settings, bearer = security.settings(CERTIFICATES), "listener.name.sasl_ssl.oauthbearer."

    assert settings["super.users"] == "User:ANONYMOUS;User:alice"
    assert settings["listener.name.sasl_ssl.sasl.enabled.mechanisms"].endswith(",OAUTHBEARER")
    assert settings[bearer + "sasl.oauthbearer.jwks.endpoint.url"] == "http://oidc/kafka/jwks"
    assert settings[bearer + "sasl.oauthbearer.expected.issuer"] == "http://oidc/kafka"
    assert settings[bearer + "sasl.oauthbearer.clock.skew.seconds"] == "0"
    assert security.java_options() == ("-Dallowed",)


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ({"al ice": "secret"}, "User 'al ice' of Security"),
        ({"../alice": "secret"}, "User '../alice' of Security"),
        ({"alice": ""}, "The password of alice"),
        ({"alice": 'se"cret'}, "The password of alice"),
        ({"alice": "se,cret"}, "The password of alice"),
    ],
)
def test_users_that_cannot_be_written_down_are_refused(users, message):
    """A name or a password that another language would take apart is refused, and the password is not shown."""
    with pytest.raises(ConfigError, match=message) as caught:
        Security(users=users)

    assert "cret" not in str(caught.value)


def test_passwords_are_not_shown():
    """Neither a failed test's output nor a log has them."""
    assert "alice-secret" not in repr(Security(users=USERS))


@pytest.mark.parametrize(
    ("how", "params"),
    [
        ("ssl", {"bootstrap.servers": "ssl:1", "security.protocol": "SSL"}),
        (
            "mtls",
            {
                "bootstrap.servers": "mtls:1",
                "security.protocol": "SSL",
                "ssl.certificate.location": "/made/alice.pem",
                "ssl.key.location": "/made/alice.key",
            },
        ),
        (
            "scram-sha-512",
            {
                "bootstrap.servers": "sasl:1",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "alice",
                "sasl.password": "alice-secret",
            },
        ),
        (
            "oauthbearer",
            {
                "bootstrap.servers": "sasl:1",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "alice",
                "sasl.oauthbearer.client.secret": "alice-secret",
                "sasl.oauthbearer.scope": "kafka",
                "sasl.oauthbearer.token.endpoint.url": "http://oidc/kafka/token",
            },
        ),
    ],
)
def test_librdkafka_is_told(logins, how, params):
    """Parameters are complete: address, protocol, authority, and who one is."""
    assert logins.librdkafka(how, "alice") == params | TLS


@pytest.mark.parametrize(
    ("how", "params"),
    [
        ("ssl", {"bootstrap.servers": "ssl:1", "security.protocol": "SSL"}),
        (
            "mtls",
            {
                "bootstrap.servers": "mtls:1",
                "security.protocol": "SSL",
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": "/made/alice.p12",
                "ssl.keystore.password": "store-secret",
                "ssl.key.password": "store-secret",
            },
        ),
        (
            "plain",
            {
                "bootstrap.servers": "sasl:1",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
                ' username="alice" password="alice-secret";',
            },
        ),
        (
            "oauthbearer",
            {
                "bootstrap.servers": "sasl:1",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
                ' clientId="alice" clientSecret="alice-secret" scope="kafka";',
                "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer"
                ".OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": "http://oidc/kafka/token",
            },
        ),
    ],
)
def test_java_is_told(logins, how, params):
    """The same login in the words of Kafka's own client."""
    assert logins.java(how, "alice") == params | TRUST


def test_sasl_without_tls_names_no_authority(logins):
    """The plain port of SASL is another address, and has no certificate."""
    assert logins.librdkafka("plain", "alice", tls=False) == {
        "bootstrap.servers": "plain:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
    }


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda logins: logins.librdkafka("kerberos", "alice"), "There is no login 'kerberos'"),
        (lambda logins: logins.java("mtls", "alice", tls=False), "The login 'mtls' is TLS itself"),
        (lambda logins: logins.librdkafka("plain", "carol"), "There is no user 'carol': Security has alice"),
    ],
)
def test_a_login_that_is_not_there_is_refused(logins, call, message):
    """A misspelt login is no login of somebody else."""
    with pytest.raises(ConfigError, match=message):
        call(logins)


def test_tokens_need_a_server():
    """Without one the login is refused, and the sentence names what to give."""
    with pytest.raises(ConfigError, match=r"Security\(oidc=LocalOidc"):
        Logins(Security(users=USERS), CERTIFICATES, SERVERS).librdkafka("oauthbearer", "alice")


def test_a_plain_cluster_has_no_logins():
    """What a cluster does not have is refused in a sentence that says how to get it."""
    with pytest.raises(KafkaStartError, match=r"start it with LocalKafka\(security=Security"):
        LocalKafka().login("plain")
    with pytest.raises(KafkaStartError, match="LocalProxy reads what passes"):
        LocalKafka(proxy=LocalProxy(), security=Security())


def test_a_node_is_asked_for_one_acl():
    """The request names every part, by the numbers of Kafka's protocol: no other ACL answers it."""
    acl = Acl(user="bob", operation="read", resource="topic", name="orders")

    question = acl.question(AclPermissionType.ALLOW)

    assert question.endswith(b"\x02\x00\x06orders\x03\x00\x08User:bob\x00\x01*\x03\x03")
    assert len(question) == 4 + int.from_bytes(question[:4], "big")


def test_an_answer_has_the_acl_or_not():
    """The count of ACLs stands behind a text of any length; an error is told."""
    head = bytes(8)  # correlation id, throttle time

    assert is_found(head + b"\0\0" + b"\xff\xff" + b"\0\0\0\1")
    assert not is_found(head + b"\0\0" + b"\0\3abc" + b"\0\0\0\0")
    with pytest.raises(ConfigError, match="error code 54"):
        is_found(head + b"\0\x36" + b"\xff\xff" + b"\0\0\0\0")


@pytest.mark.parametrize("wrong", [{"operation": "PEEK"}, {"resource": "planet"}])
def test_an_acl_that_kafka_does_not_know_is_refused(wrong):
    """Before anything is asked."""
    with pytest.raises(ConfigError, match="There is no"):
        Acl(**({"user": "bob", "operation": "READ", "resource": "topic", "name": "orders"} | wrong))
