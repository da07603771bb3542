"""JKS, Java's own format of key stores. Certificates in it are not encrypted, keys are.

Written by sun.security.provider.JavaKeyStore; the JDK has no other description of it.
"""

from __future__ import annotations

import hashlib
import struct
from base64 import encodebytes
from hmac import compare_digest
from typing import NamedTuple

MAGIC = b"\xfe\xed\xfe\xed"
_SALT = "Mighty Aphrodite"  # the JDK's, for the digest of the whole file
_KEY, _TRUSTED = 1, 2
_DIGEST_SIZE = 20
# The DER of Sun's key protector stands before the salt, the key and a digest; its algorithm is the only one in JKS.
_PROTECTOR = bytes.fromhex("2b060104012a02110101")


class Jks(NamedTuple):
    """What a file holds, as DER."""

    trusted: tuple[bytes, ...]
    keys: tuple[JksKey, ...]


class JksKey(NamedTuple):
    """An encrypted key, and its certificates: first its own, then those that sign it."""

    encrypted: bytes
    chain: tuple[bytes, ...]


class JksError(ValueError):
    """The file is not what it says, or the password is wrong; the text says which."""


def parse_jks(data: bytes, password: str | None) -> Jks:
    """Read a file's entries; with a password, check that it is the one that the file was written with.

    Raises:
        JksError: it is damaged, or the password is not the file's.
    """
    body, digest = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    if password is not None:
        salted = password.encode("utf-16-be") + _SALT.encode() + body
        if not compare_digest(hashlib.sha1(salted, usedforsecurity=False).digest(), digest):
            raise JksError("the password is wrong, or the file is damaged")
    reader = _Reader(body)
    trusted, keys = [], []
    try:
        if reader.take(4) != MAGIC:
            raise JksError("it is not a JKS file")
        version, count = reader.number(), reader.number()
        if version != 2:
            raise JksError(f"it is of version {version}, and Java writes 2")
        for _ in range(count):
            kind = reader.number()
            reader.short_bytes()  # its alias
            reader.take(8)  # when it was added
            if kind == _KEY:
                encrypted = reader.long_bytes()
                keys.append(JksKey(encrypted, tuple(reader.certificate() for _ in range(reader.number()))))
            elif kind == _TRUSTED:
                trusted.append(reader.certificate())
            else:
                raise JksError(f"it has an entry of the unknown kind {kind}")
    except struct.error:
        raise JksError("it ends too early") from None
    return Jks(tuple(trusted), tuple(keys))


def decrypt_key(encrypted: bytes, password: str) -> bytes:
    """The key as PKCS8 DER.

    Raises:
        JksError: the password is not the key's.
    """
    at = encrypted.find(_PROTECTOR)
    if at < 0:
        raise JksError("its key is encrypted in a way that JKS does not have")
    protected = _octets(encrypted[at + len(_PROTECTOR) :])
    salt, hidden, check = protected[:_DIGEST_SIZE], protected[_DIGEST_SIZE:-_DIGEST_SIZE], protected[-_DIGEST_SIZE:]
    secret = password.encode("utf-16-be")
    stream, last = b"", salt
    while len(stream) < len(hidden):
        last = hashlib.sha1(secret + last, usedforsecurity=False).digest()
        stream += last
    key = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if not compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise JksError("the password of its key is wrong")
    return key


def pem(label: str, der: bytes) -> str:
    r"""Write DER as PEM.

    >>> pem("CERTIFICATE", b"abc")
    '-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n'
    """
    return f"-----BEGIN {label}-----\n{encodebytes(der).decode()}-----END {label}-----\n"


def _octets(der: bytes) -> bytes:
    """The content of the first OCTET STRING after the algorithm's parameters."""
    at = der.index(b"\x04")
    size, start = der[at + 1], at + 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(der[at + 2 : start], "big")
    return der[start : start + size]


class _Reader:
    """Java's DataInput."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise struct.error
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def short_bytes(self) -> bytes:
        return self.take(int.from_bytes(self.take(2), "big"))

    def long_bytes(self) -> bytes:
        return self.take(self.number())

    def certificate(self) -> bytes:
        self.short_bytes()  # its type, X.509
        return self.long_bytes()
