"""One sentence for each mistake of a login; integration_tests/test_login_mistakes.py makes them for real."""

import pytest

from kafka_direct.broker.diagnosis import explain
from kafka_direct.broker.port import Port

AT = "broker:9093"
SASL = ("PLAIN", "SCRAM-SHA-512")
SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512"}
WHERE = "sasl_ssl://broker-2:9093/2: "


def port(**known):
    return Port(address=AT, **known)


@pytest.mark.parametrize(
    ("found", "config", "said"),
    [
        (port(is_found=False, is_open=False), {}, "the host of broker:9093 is not known"),
        (port(is_open=False), {}, "nothing answers at broker:9093"),
        (port(is_tls=True, mechanisms=()), {}, "speaks TLS and security.protocol is PLAINTEXT; set it to SSL"),
        (port(is_tls=True), {"security.protocol": "sasl_plaintext"}, "SASL_PLAINTEXT; set it to SASL_SSL"),
        (port(is_tls=False), {"security.protocol": "ssl"}, "speaks no TLS and security.protocol is SSL"),
        (port(is_tls=True, distrust="certificate has expired"), SCRAM, "has expired; renew it on the broker"),
        (port(is_tls=True, distrust="Hostname mismatch, certificate is not valid for 'x'."), SCRAM, "another host"),
        (port(is_tls=True, distrust="self-signed certificate in chain"), SCRAM, "not signed by a known authority"),
        (port(is_tls=True, mechanisms=SASL), {"security.protocol": "SSL"}, "set it to SASL_SSL, and sasl.mechanisms"),
        (port(is_tls=False, mechanisms=SASL), {}, "set it to SASL_PLAINTEXT, and sasl.mechanisms to one of PLAIN,"),
        (port(is_tls=True, mechanisms=()), SCRAM, "takes no login and security.protocol is SASL_SSL; set it to SSL"),
        (port(is_tls=True, mechanisms=SASL), SCRAM | {"sasl.mechanisms": "OAUTHBEARER"}, "has no OAUTHBEARER; set"),
        (port(is_tls=True, mechanisms=SASL), {"security.protocol": "SASL_SSL"}, "has no GSSAPI; set"),
    ],
)
def test_what_the_port_tells(found, config, said):
    """Without a word of the client's."""
    explained = explain(found, config, "")

    assert said in explained.sentence
    assert explained.is_final is found.is_open


@pytest.mark.parametrize(
    ("complaint", "config", "said"),
    [
        (
            "SASL authentication error: Authentication failed: Invalid username or password (after 3ms in state AUTH)",
            SCRAM,
            (
                "broker-2:9093 refuses the login (Authentication failed: Invalid username or password); correct "
                "sasl.username and sasl.password"
            ),
        ),
        (
            'SASL authentication error: {"status":"invalid_token"} (after 3ms in state AUTH_REQ)',
            SCRAM | {"sasl.mechanisms": "OAUTHBEARER"},
            (
                'broker-2:9093 refuses the login ({"status":"invalid_token"}); correct sasl.oauthbearer.* or oauth_cb, '
                "or what the broker expects of a token"
            ),
        ),
        (
            "Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42",
            SCRAM,
            "broker-2:9093 wants a certificate of this client, and there is none (bad certificate)",
        ),
        (
            "error:0A000412:SSL routines::tlsv13 alert certificate required: SSL alert number 116",
            SCRAM,
            "broker-2:9093 wants a certificate of this client, and there is none (certificate)",
        ),
        (
            "Receive failed: error:0A000416:SSL routines::ssl/tls alert certificate unknown: SSL alert number 46",
            SCRAM | {"ssl.keystore.location": "/me.p12"},
            "broker-2:9093 refuses this client's certificate (certificate unknown): it has expired, or",
        ),
    ],
)
def test_what_only_the_client_was_told(complaint, config, said):
    """The broker's own words, and which broker it was."""
    explained = explain(port(is_tls=True), config, WHERE + complaint)

    assert explained.sentence.startswith(said)
    assert explained.is_final


def test_a_token_that_was_not_had():
    """Librdkafka's own, of OIDC."""
    complaint = "Failed to acquire SASL OAUTHBEARER token: 401 Unauthorized"

    assert explain(port(is_tls=True), SCRAM, complaint).sentence.startswith("no token was had for the login (401")


@pytest.mark.parametrize("complaint", ["", "Connection refused", WHERE + "Disconnected (after 3ms in state UP)"])
def test_what_nobody_knows_is_not_explained(complaint):
    """Better no sentence than a wrong one."""
    assert explain(port(is_tls=True, mechanisms=SASL), SCRAM, complaint) is None
