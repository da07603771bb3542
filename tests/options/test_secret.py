"""Secrets are known by their keys, and references are resolved where they are used."""

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.options.librdkafka_keys import LIBRDKAFKA_KEYS
from kafka_direct.options.secret import (
    check_client_reference,
    is_secret,
    masked,
    remember,
    resolve_reference,
)


def test_the_secrets_among_librdkafkas_keys_are_these():
    """A key that a new librdkafka adds shows up here, to be judged."""
    assert [key for key in LIBRDKAFKA_KEYS if is_secret(key)] == [
        "sasl.kerberos.kinit.cmd",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
    ]


def test_a_variable_is_read_as_it_is(monkeypatch):
    """`env:` gives the variable's text, empty or with colons."""
    monkeypatch.setenv("SECRET", "a:b c")
    monkeypatch.setenv("EMPTY", "")

    assert resolve_reference("sasl.password", "env:SECRET") == "a:b c"
    assert resolve_reference("sasl.password", "env:EMPTY") == ""


@pytest.mark.parametrize(
    ("written", "read"),
    [("pw", "pw"), ("pw\n", "pw"), ("pw\r\n", "pw"), ("pw\n\n", "pw\n"), (" pw ", " pw "), ("", "")],
)
def test_a_file_is_read_without_its_last_newline(tmp_path, written, read):
    """Editors end files with a newline, passwords do not; all other white space counts."""
    path = tmp_path / "secret"
    path.write_bytes(written.encode())

    assert resolve_reference("sasl.password", f"file:{path}") == read
    assert resolve_reference("sasl.password", f"file://{path}") == read


def test_a_missing_variable_is_named(monkeypatch):
    """The error names the key and the variable, and where to set it."""
    monkeypatch.delenv("NO_SUCH", raising=False)

    with pytest.raises(ConfigError, match=r"sasl\.password is 'env:NO_SUCH', .* on the executors\."):
        resolve_reference("sasl.password", "env:NO_SUCH")


def test_an_unreadable_file_is_named(tmp_path):
    """The error names the key and the file, and shows nothing of its content."""
    with pytest.raises(ConfigError, match=r"ssl\.key\.pem .*No such file"):
        resolve_reference("ssl.key.pem", f"file:{tmp_path}/none")
    with pytest.raises(ConfigError, match="Is a directory"):
        resolve_reference("ssl.key.pem", f"file:{tmp_path}")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        resolve_reference("ssl.key.pem", f"file:{tmp_path}/binary")


@pytest.mark.parametrize(
    ("key", "reference", "said"),
    [
        ("sasl.password", "env:", "write env:NAME"),
        ("sasl.password", "file:secret.txt", "absolute path"),
        ("sasl.password", "file:", "absolute path"),
        ("ssl.ca.location", "file:/etc/ca.pem", "leave out 'file:'"),
    ],
)
def test_a_reference_that_cannot_work_is_refused_early(key, reference, said):
    """What would fail in each worker fails before there is one."""
    with pytest.raises(ConfigError) as refused:
        check_client_reference(key, reference)

    assert said in str(refused.value)


@pytest.mark.parametrize("key", ["security.protocol", "client.id", "bootstrap.servers", "ssl.ca.pem", "group.id"])
@pytest.mark.parametrize("reference", ["env:PASSWORD", "file:/etc/passwd"])
def test_a_reference_stands_only_for_what_is_never_shown(key, reference):
    """Of another key the value would stand in an error or a log."""
    with pytest.raises(ConfigError, match="may stand only for a secret or a user's name; give its value"):
        check_client_reference(key, reference)


@pytest.mark.parametrize("key", ["sasl.username", "sasl.oauthbearer.client.id", "sasl.jaas.config", "ssl.key.pem"])
def test_users_and_secrets_may_be_references(key):
    """Who logs in, and with what."""
    check_client_reference(key, "env:NAME")
    check_client_reference(key, "file:/run/secrets/kafka")


def test_what_a_client_was_given_is_masked():
    """Also where one secret is a part of another; short values are left, because they stand by chance in every text."""
    remember(["hunter22", "hunter22-long", "abc"])

    assert masked("is it hunter22-long, hunter22 or abc?") == "is it ***, *** or abc?"
