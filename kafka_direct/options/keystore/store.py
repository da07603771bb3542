"""A trust store or a key store in JKS or PKCS12, as PEM for librdkafka. What a file is, its first bytes tell.

Java does the same: its default type JKS also opens PKCS12.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from kafka_direct.errors import ConfigError

from .jks import MAGIC, Jks, JksError, decrypt_key, parse_jks, pem

_PEM = b"-----BEGIN"
_DER = b"\x30"  # how each PKCS12 begins


class OwnKey(NamedTuple):
    """A client's key and its certificates, as PEM. The key is not encrypted."""

    key: str
    chain: str


def read_trusted(path: str, password: str | None) -> str:
    """The certificates that a trust store trusts, as PEM.

    Raises:
        ConfigError: the file cannot be read, holds none, or the password is wrong; the message shows no password.
    """
    where = f"ssl.truststore.location {path!r}"
    data = _read(where, path)
    if data.lstrip().startswith(_PEM):
        return data.decode("utf-8", "replace")
    if data.startswith(MAGIC):
        trusted = "".join(pem("CERTIFICATE", der) for der in _parse(where, data, password).trusted)
    else:
        found = _pkcs12(where, data, password)
        trusted = "".join(_certificate(each.certificate) for each in found.additional_certs)
    if not trusted:
        raise ConfigError(f"{where} holds no trusted certificate; add the authority's with 'keytool -importcert'.")
    return trusted


def read_own_key(path: str, password: str | None, key_password: str | None) -> OwnKey | None:
    """The key of a key store in JKS; None if it is in PKCS12, which librdkafka reads itself.

    Raises:
        ConfigError: the file cannot be read, holds no key or several, or a password is wrong or missing.
    """
    where = f"ssl.keystore.location {path!r}"
    data = _read(where, path)
    if not data.startswith(MAGIC):
        return None
    found = _parse(where, data, password)
    if len(found.keys) != 1:
        raise ConfigError(f"{where} holds {len(found.keys)} keys; give a file with the client's own key alone.")
    secret = key_password if key_password is not None else password
    if secret is None:
        raise ConfigError(f"{where} needs ssl.keystore.password, and ssl.key.password if the key has another one.")
    (entry,) = found.keys
    try:
        key = decrypt_key(entry.encrypted, secret)
    except JksError as error:
        raise ConfigError(f"{where} cannot be read: {error}; correct ssl.key.password.") from None
    return OwnKey(pem("PRIVATE KEY", key), "".join(pem("CERTIFICATE", der) for der in entry.chain))


def _read(where: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{where} cannot be read ({error.strerror}); put it on the driver and on every executor."
        ) from None


def _parse(where: str, data: bytes, password: str | None) -> Jks:
    try:
        return parse_jks(data, password)
    except JksError as error:
        raise ConfigError(f"{where} cannot be read: {error}; correct the password or the file.") from None


def _pkcs12(where: str, data: bytes, password: str | None) -> Any:
    if not data.startswith(_DER):
        raise ConfigError(f"{where} is neither JKS nor PKCS12 nor PEM; give one of these.")
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12  # noqa: PLC0415  an extra
    except ImportError:
        raise ConfigError(
            f"{where} is PKCS12, which needs the package cryptography: pip install 'kafka-direct[tls]' on the driver "
            "and on every executor, or give the certificates as PEM in ssl.ca.location."
        ) from None
    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise ConfigError(f"{where} cannot be read: the password is wrong, or the file is damaged.") from None


def _certificate(certificate: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415  an extra

    text: bytes = certificate.public_bytes(Encoding.PEM)
    return text.decode()
