"""Java's key stores are read as Java writes them; stores that keytool wrote are in integration_tests."""

import hashlib
import os
from base64 import decodebytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.errors import ConfigError
from kafka_direct.options.keystore.jks import JksError, decrypt_key, parse_jks
from kafka_direct.options.keystore.store import read_own_key, read_trusted

PROTECTOR = bytes.fromhex("300e060a2b060104012a021101010500")


def written_jks(trusted=(), keys=(), password="changeit"):
    """What Java writes; `keys` are pairs of an encrypted key and its certificates."""
    body = b"\xfe\xed\xfe\xed" + number(2) + number(len(trusted) + len(keys))
    for encrypted, chain in keys:
        body += number(1) + utf("me") + bytes(8) + number(len(encrypted)) + encrypted + number(len(chain))
        body += b"".join(map(certificate, chain))
    body += b"".join(number(2) + utf("ca") + bytes(8) + certificate(der) for der in trusted)
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def encrypted_key(key, password):
    """The inverse of `decrypt_key`."""
    secret, salt = password.encode("utf-16-be"), os.urandom(20)
    stream, last = b"", salt
    while len(stream) < len(key):
        last = hashlib.sha1(secret + last).digest()
        stream += last
    hidden = salt + bytes(a ^ b for a, b in zip(key, stream, strict=False)) + hashlib.sha1(secret + key).digest()
    content = PROTECTOR + octets(hidden)
    return b"\x30\x82" + len(content).to_bytes(2, "big") + content


def number(value):
    return value.to_bytes(4, "big")


def utf(text):
    return len(text).to_bytes(2, "big") + text.encode()


def certificate(der):
    return utf("X.509") + number(len(der)) + der


def octets(content):
    size = len(content)
    return (b"\x04" + bytes([size]) if size < 128 else b"\x04\x82" + size.to_bytes(2, "big")) + content


def der_of(pem):
    return decodebytes("".join(pem.splitlines()[1:-1]).encode())


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=4), st.text(max_size=20))
def test_trusted_certificates_come_back(ders, password):
    """Byte for byte and in order, with the password checked or without one."""
    data = written_jks(trusted=ders, password=password)

    assert parse_jks(data, password).trusted == tuple(ders)
    assert parse_jks(data, None).trusted == tuple(ders)


@given(st.binary(min_size=1, max_size=2000), st.text(min_size=1, max_size=20))
def test_a_key_comes_back(key, password):
    """Its encryption is undone, and another password is told."""
    encrypted = encrypted_key(key, password)

    assert decrypt_key(encrypted, password) == key
    with pytest.raises(JksError, match="password of its key"):
        decrypt_key(encrypted, password + "x")


@given(st.data())
def test_a_damaged_file_is_told(data):
    """Cut anywhere, it never ends in another error or in half of its content."""
    whole = written_jks(trusted=[b"abc" * 9], keys=[(encrypted_key(b"key", "pw"), [b"cert"])])
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]

    with pytest.raises(JksError):
        parse_jks(cut, "changeit")


def test_a_trust_store_becomes_pem(tmp_path):
    """For librdkafka, which reads nothing else."""
    path = tmp_path / "ca.jks"
    path.write_bytes(written_jks(trusted=[b"first", b"second"]))

    text = read_trusted(str(path), "changeit")

    first, second = text.split("-----END CERTIFICATE-----\n")[:2]
    assert der_of(first + "-\n") == b"first"
    assert der_of(second + "-\n") == b"second"


def test_a_key_store_becomes_pem(tmp_path):
    """The key has a password of its own, or else the store's."""
    path = tmp_path / "me.jks"
    for key_password in ("changeit", "other"):
        path.write_bytes(written_jks(keys=[(encrypted_key(b"key", key_password), [b"mine", b"its authority"])]))

        own = read_own_key(str(path), "changeit", None if key_password == "changeit" else key_password)

        assert der_of(own.key) == b"key"
        assert own.chain.count("BEGIN CERTIFICATE") == 2


@pytest.mark.parametrize(
    ("content", "password", "said"),
    [
        (None, "changeit", "cannot be read .No such file"),
        (b"", "changeit", "neither JKS nor PKCS12 nor PEM"),
        (b"hello", "changeit", "neither JKS nor PKCS12 nor PEM"),
        (b"\x30\x03abc", "changeit", "password is wrong, or the file is damaged"),
        (written_jks(trusted=[b"x"]), "hunter2", "password is wrong"),
        (written_jks(trusted=[]), "changeit", "holds no trusted certificate"),
    ],
)
def test_a_trust_store_that_cannot_be_read_is_named(tmp_path, content, password, said):
    """By its path, without its password."""
    path = tmp_path / "ca.jks"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=said) as refused:
        read_trusted(str(path), password)

    assert str(path) in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("keys", "password", "key_password", "said"),
    [
        ([], "changeit", None, "holds 0 keys"),
        ([(b"\x30", [])] * 2, "changeit", None, "holds 2 keys"),
        ([(encrypted_key(b"k", "changeit"), [])], "changeit", "hunter2", "password of its key is wrong"),
        ([(encrypted_key(b"k", "changeit"), [])], None, None, "needs ssl.keystore.password"),
        ([(b"\x30\x00", [])], "changeit", None, "in a way that JKS does not have"),
    ],
)
def test_a_key_store_that_cannot_be_read_is_named(tmp_path, keys, password, key_password, said):
    """By its path, without its passwords."""
    path = tmp_path / "me.jks"
    path.write_bytes(written_jks(keys=keys))

    with pytest.raises(ConfigError, match=said) as refused:
        read_own_key(str(path), password, key_password)

    assert str(path) in str(refused.value)
    assert "hunter2" not in str(refused.value)
