"""The Java client's `ssl.truststore.*` and `ssl.keystore.*`, translated to librdkafka's keys.

PEM has keys in librdkafka, and is translated at once. JKS and PKCS12 are read where a client is built, because each
host has its own copy of the file; until then Java's keys stay.

Measured on librdkafka 2.16.1 to make the same TLS handshake: several authorities in one text, a certificate with its
chain in one text, an encrypted key, and one PEM file that holds a key and its certificates.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError
from kafka_direct.options.keystore.store import read_own_key, read_trusted

from .move import move

if TYPE_CHECKING:
    from collections.abc import MutableMapping

TRUST, TRUST_PASSWORD = "ssl.truststore.location", "ssl.truststore.password"
KEYS, KEYS_PASSWORD, KEY_PASSWORD = "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password"
# What of Java's stays until a client is built; the other keys are librdkafka's too.
LATE_KEYS = (TRUST, TRUST_PASSWORD)
PEM_KEYS = frozenset({"ssl.ca.pem", "ssl.key.pem", "ssl.certificate.pem"})
_LINE = 64  # characters of PEM
_PEM = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>[A-Za-z0-9+/=\s]+)-----END (?P=label)-----\s*")
_READ = ("", "JKS", "PKCS12", "PEM")  # what Java and kafka_direct can read


def translate_trust(given: MutableMapping[str, Any]) -> None:
    """Replace `ssl.truststore.*`, which holds the trusted authorities, by `ssl.ca.*`, if they are PEM.

    >>> params = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/etc/ca.pem"}
    >>> translate_trust(params)
    >>> params
    {'ssl.ca.location': '/etc/ca.pem'}
    """
    kind = _kind(given, "ssl.truststore.type")
    text = given.pop("ssl.truststore.certificates", None)
    if text is not None:
        move(given, "ssl.truststore.certificates", "ssl.ca.pem", text)
    if kind == "PEM" and TRUST in given:
        move(given, TRUST, "ssl.ca.location", given.pop(TRUST))
    if TRUST in given and given.keys() & {"ssl.ca.location", "ssl.ca.pem"}:
        raise ConfigError(f"{TRUST} and ssl.ca.location are one setting; give one of them.")
    if TRUST not in given:
        given.pop(TRUST_PASSWORD, None)  # PEM is not encrypted, and Java does not look at it either


def translate_keys(given: MutableMapping[str, Any]) -> None:
    """Replace PEM in `ssl.keystore.*`, which holds the client's own key, by `ssl.key.*` and `ssl.certificate.*`.

    Another file stays under `ssl.keystore.location`, which librdkafka has too.
    """
    kind = _kind(given, "ssl.keystore.type")
    if kind == "PEM":
        if KEYS_PASSWORD in given:
            raise ConfigError(f"{KEYS_PASSWORD} has no use with type PEM; the key's own is {KEY_PASSWORD}.")
        if KEYS in given:
            # One file holds both; OpenSSL takes the part it needs.
            path = given.pop(KEYS)
            move(given, KEYS, "ssl.certificate.location", path)
            move(given, KEYS, "ssl.key.location", path)
    for java, librdkafka in (
        ("ssl.keystore.key", "ssl.key.pem"),
        ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
    ):
        if java in given:
            move(given, java, librdkafka, given.pop(java))


def read_stores(config: MutableMapping[str, Any]) -> None:
    """Replace the stores that librdkafka cannot read by their PEM; the files are those of this host.

    Raises:
        ConfigError: a store cannot be read; the message names the file and shows no password.
    """
    if TRUST in config:
        config["ssl.ca.pem"] = read_trusted(str(config.pop(TRUST)), config.pop(TRUST_PASSWORD, None))
    if KEYS in config:
        own = read_own_key(str(config[KEYS]), config.get(KEYS_PASSWORD), config.get(KEY_PASSWORD))
        if own is not None:
            for key in (KEYS, KEYS_PASSWORD, KEY_PASSWORD):
                config.pop(key, None)
            config.update({"ssl.key.pem": own.key, "ssl.certificate.pem": own.chain})
    for key in PEM_KEYS & config.keys():
        config[key] = in_lines(str(config[key]))


def in_lines(text: str) -> str:
    r"""Give PEM its lines back, which OpenSSL wants. Java takes it in one, as a properties file has it.

    >>> in_lines("-----BEGIN CERTIFICATE----- YWJj -----END CERTIFICATE-----")
    '-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n'
    """
    return _PEM.sub(_in_lines, text)


def _in_lines(found: re.Match[str]) -> str:
    body = "".join(found["body"].split())
    lines = (body[at : at + _LINE] for at in range(0, len(body), _LINE))
    return "\n".join((f"-----BEGIN {found['label']}-----", *lines, f"-----END {found['label']}-----\n"))


def _kind(given: MutableMapping[str, Any], key: str) -> str:
    kind = str(given.pop(key, "")).strip().upper()
    if kind not in _READ:
        raise ConfigError(f"{key} is {kind!r}; JKS, PKCS12 and PEM can be read here.")
    return kind
