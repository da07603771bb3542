"""The Java client's `ssl.truststore.*` and `ssl.keystore.*`, translated to librdkafka's keys.

Measured on librdkafka 2.16.1 to make the same TLS handshake: several authorities in one text, a certificate with its
chain in one text, an encrypted key, and one PEM file that holds a key and its certificates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_JKS_TRUST = (
    "librdkafka reads PEM: for each certificate run 'keytool -exportcert -rfc -keystore {path} -alias NAME', put what "
    "they print in one file, and set ssl.ca.location to it"
)
_PKCS12_TRUST = (
    "librdkafka reads PEM: run 'openssl pkcs12 -in {path} -nokeys -out ca.pem' and set ssl.ca.location to that file"
)
_JKS_KEY = (
    "librdkafka reads PKCS12: run 'keytool -importkeystore -srckeystore {path} -destkeystore client.p12 -deststoretype "
    "PKCS12', set ssl.keystore.location to that file and ssl.keystore.type to PKCS12"
)


def translate_trust(given: MutableMapping[str, Any]) -> None:
    """Replace `ssl.truststore.*`, which holds the trusted authorities, by `ssl.ca.*`.

    >>> params = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/etc/ca.pem"}
    >>> translate_trust(params)
    >>> params
    {'ssl.ca.location': '/etc/ca.pem'}
    """
    kind = str(given.pop("ssl.truststore.type", "")).upper()
    path = given.pop("ssl.truststore.location", None)
    text = given.pop("ssl.truststore.certificates", None)
    if path is not None and kind != "PEM":
        remedy = _PKCS12_TRUST if kind == "PKCS12" else _JKS_TRUST
        if not kind and str(path).lower().endswith((".pem", ".crt", ".cer")):
            remedy = "if it is a PEM file, set ssl.ca.location to it instead"
        stated = kind or "JKS, Java's default"
        raise ConfigError(f"ssl.truststore.location {path!r} is of type {stated}; {remedy.format(path=path)}.")
    if path is not None:
        move(given, "ssl.truststore.location", "ssl.ca.location", path)
    if text is not None:
        move(given, "ssl.truststore.certificates", "ssl.ca.pem", text)
    if "ssl.truststore.password" in given:
        raise ConfigError("ssl.truststore.password has no use: PEM certificates are not encrypted; leave the key out.")


def translate_keys(given: MutableMapping[str, Any]) -> None:
    """Replace PEM in `ssl.keystore.*`, which holds the client's own key, by `ssl.key.*` and `ssl.certificate.*`.

    A PKCS12 file stays under `ssl.keystore.location`, which librdkafka has too.
    """
    kind = str(given.pop("ssl.keystore.type", "")).upper()
    path = given.get("ssl.keystore.location")
    if path is not None and (kind in ("JKS", "JCEKS") or (not kind and str(path).lower().endswith(".jks"))):
        raise ConfigError(f"ssl.keystore.location {path!r} is of type JKS; {_JKS_KEY.format(path=path)}.")
    if kind not in ("", "PEM", "PKCS12"):
        raise ConfigError(f"ssl.keystore.type is {kind!r}; librdkafka reads PEM and PKCS12.")
    if kind == "PEM":
        if "ssl.keystore.password" in given:
            raise ConfigError("ssl.keystore.password has no use with type PEM; the key's own is ssl.key.password.")
        if path is not None:
            # One file holds both; OpenSSL takes the part it needs.
            move(given, "ssl.keystore.location", "ssl.certificate.location", path)
            move(given, "ssl.keystore.location", "ssl.key.location", path)
            del given["ssl.keystore.location"]
    for java, librdkafka in (
        ("ssl.keystore.key", "ssl.key.pem"),
        ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
    ):
        if java in given:
            move(given, java, librdkafka, given.pop(java))


def move(given: MutableMapping[str, Any], java: str, librdkafka: str, value: object) -> None:
    """Write a Java key's value under librdkafka's name, unless both are there and differ."""
    if given.setdefault(librdkafka, value) != value:
        raise ConfigError(f"{java} and {librdkafka} are one setting and differ; give {librdkafka} alone.")
