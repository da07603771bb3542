"""The token for Amazon MSK: a signed URL, made by AWS's own package from AWS's own credentials."""

import time
from base64 import urlsafe_b64decode
from urllib.parse import parse_qs, urlsplit

import pytest
from moto.server import ThreadedMotoServer

from kafka_direct.errors import ConfigError
from kafka_direct.login.msk import token


@pytest.fixture(autouse=True)
def _credentials(monkeypatch, tmp_path):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIADEFAULT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "default-secret")
    shared = tmp_path / "credentials"
    shared.write_text("[shop]\naws_access_key_id = AKIASHOP\naws_secret_access_key = shop-secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


def signed(text):
    """The URL in a token, and what was asked in it."""
    url = urlsplit(urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
    return url, {key: values[0] for key, values in parse_qs(url.query).items()}


def test_the_default_credentials_sign():
    """For the region of the brokers; the time of its end is in seconds, as confluent-kafka wants it."""
    text, expires = token("region=eu-west-1")

    url, asked = signed(text)
    assert url.hostname == "kafka.eu-west-1.amazonaws.com"
    assert asked["Action"] == "kafka-cluster:Connect"
    assert asked["X-Amz-Credential"].startswith("AKIADEFAULT/")
    assert asked["X-Amz-Credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert expires == pytest.approx(time.time() + 900, abs=30)


def test_a_profile_signs():
    """`awsProfileName` of Java's login module."""
    text, _ = token("region=eu-west-1 awsProfileName=shop")

    assert signed(text)[1]["X-Amz-Credential"].startswith("AKIASHOP/")


def test_a_role_is_assumed(monkeypatch):
    """`awsRoleArn` of Java's login module, asked of a real STS endpoint."""
    server = ThreadedMotoServer(port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://{host}:{port}")
        role = "arn:aws:iam::123456789012:role/reader"

        text, _ = token(f"region=eu-west-1 awsRoleArn={role} awsRoleSessionName=me awsRoleExternalId=shop")
    finally:
        server.stop()

    asked = signed(text)[1]
    assert not asked["X-Amz-Credential"].startswith("AKIADEFAULT/")
    assert asked["X-Amz-Security-Token"]


def test_the_region_may_come_from_the_environment(monkeypatch):
    """Where the brokers' names do not tell it, as behind a private link."""
    with pytest.raises(ConfigError, match="set AWS_REGION"):
        token("")
    monkeypatch.setenv("AWS_REGION", "us-east-1")

    assert signed(token(None)[0])[0].hostname == "kafka.us-east-1.amazonaws.com"


def test_unknown_words_are_refused():
    """A misspelt one would mean other credentials."""
    with pytest.raises(ConfigError, match="such as region="):
        token("awsRole=arn:1")
