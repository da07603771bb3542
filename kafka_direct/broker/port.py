"""What a broker's port speaks: TLS or not, SASL or not, and by which mechanisms. Asked when a client gets no answer.

librdkafka says only that it failed: the same words for an unknown authority, another host name and an expired
certificate, and none at all where it speaks plain text to a port of TLS.
"""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_SASL_HANDSHAKE, _ANY_MECHANISM = 17, b"?"
_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 33, 34
_LONGEST_ANSWER = 10_000
_FALSE = ("false", "f", "0")  # as librdkafka reads them
_SYSTEM = "probe"  # librdkafka's word for the system's authorities, in ssl.ca.location


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """What was found out; None: not known."""

    address: str
    is_found: bool = True  # its host has an address
    is_open: bool = True
    is_tls: bool | None = None
    distrust: str = ""  # why its certificate is not trusted, in OpenSSL's words
    mechanisms: tuple[str, ...] | None = None  # none of them: it has no SASL


def look_at(address: str, trust: ssl.SSLContext | None, seconds: float) -> Port:
    """Ask a port; `trust` is how its certificate is to be checked, None where the client speaks plain text."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        plain = socket.create_connection((host, int(port)), seconds)
    except socket.gaierror:
        return Port(address=address, is_found=False, is_open=False)
    except OSError:
        return Port(address=address, is_open=False)
    with plain:
        distrust, is_tls = _handshake(plain, trust or _any_certificate(), host)
    mechanisms = None
    if not distrust:
        try:
            with socket.create_connection((host, int(port)), seconds) as again:
                if not is_tls:
                    mechanisms = _mechanisms(again)
                else:
                    with (trust or _any_certificate()).wrap_socket(again, server_hostname=host) as stream:
                        mechanisms = _mechanisms(stream)
        except OSError:
            pass  # it says nothing about SASL
    # Only an answer in plain text shows that there is no TLS: a slow port, or one that went away, may have it.
    is_plain = not is_tls and mechanisms is not None
    return Port(
        address=address,
        is_tls=True if is_tls else False if is_plain else None,
        distrust=distrust,
        mechanisms=mechanisms,
    )


def trust_of(config: Mapping[str, Any]) -> ssl.SSLContext | None:
    """How a client with this configuration checks a broker's certificate; None if it speaks plain text."""
    if not str(config.get("security.protocol", "")).lower().endswith("ssl"):
        return None
    if str(config.get("enable.ssl.certificate.verification", "true")).lower() in _FALSE:
        return _any_certificate()
    context = ssl.create_default_context()
    place, text = config.get("ssl.ca.location"), config.get("ssl.ca.pem")
    if place == _SYSTEM:
        place = None
    if place is not None or text is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        is_folder = place is not None and Path(place).is_dir()
        context.load_verify_locations(None if is_folder else place, place if is_folder else None, text)
    context.check_hostname = str(config.get("ssl.endpoint.identification.algorithm", "https")).lower() == "https"
    return context


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _handshake(plain: socket.socket, trust: ssl.SSLContext, host: str) -> tuple[str, bool]:
    try:
        trust.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        return error.verify_message, True
    except ssl.SSLError as error:
        return "", "ALERT" in (error.reason or "")  # an alert is TLS; anything else is not
    except OSError:
        return "", False  # it went away, or was too slow
    return "", True


def _mechanisms(stream: socket.socket) -> tuple[str, ...] | None:
    """Kafka's answer to a handshake with a mechanism that nobody has."""
    request = struct.pack(">hhih", _SASL_HANDSHAKE, 1, 0, -1) + struct.pack(">h", len(_ANY_MECHANISM)) + _ANY_MECHANISM
    stream.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _take(stream, 4))
    if not 0 < size < _LONGEST_ANSWER:
        return None
    return parse_handshake(_take(stream, size))


def parse_handshake(answer: bytes) -> tuple[str, ...] | None:
    r"""The mechanisms in an answer to SaslHandshake; none if the port has no SASL, None if it is another answer.

    >>> parse_handshake(bytes(4) + b"\0\x21" + b"\0\0\0\x01" + b"\0\x05PLAIN")
    ('PLAIN',)
    >>> parse_handshake(bytes(4) + b"\0\x22" + bytes(4))
    ()
    """
    try:
        code, count = struct.unpack_from(">hi", answer, 4)
        if code not in (_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE):
            return None
        at, found = 10, []
        for _ in range(count):
            (size,) = struct.unpack_from(">h", answer, at)
            found.append(answer[at + 2 : at + 2 + size].decode())
            at += 2 + size
    except (struct.error, UnicodeDecodeError):
        return None
    return tuple(found)


def _take(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = stream.recv(size - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data
