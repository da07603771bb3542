"""Secrets are known by their keys, and references are resolved where they are used."""

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.options.librdkafka_keys import LIBRDKAFKA_KEYS
from kafka_direct.options.secret import check_reference, is_secret, resolve_reference


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
        ("ssl.ca.location", "file:/etc/ca.pem", "give the path without 'file:'"),
    ],
)
def test_a_reference_that_cannot_work_is_refused_early(key, reference, said):
    """What would fail in each worker fails before there is one."""
    with pytest.raises(ConfigError) as refused:
        check_reference(key, reference)

    assert said in str(refused.value)


def test_a_path_may_come_from_the_environment():
    """`env:` may name a path; only `file:` would be read in its place."""
    check_reference("ssl.ca.location", "env:CA_FILE")
    check_reference("sasl.password", "file:/run/secrets/kafka")
