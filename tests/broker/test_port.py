"""What a port speaks, asked on sockets of this process."""

import socket
import ssl
import threading

import pytest

from kafka_direct.broker.port import look_at, trust_of

ANY = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_port_that_says_nothing_of_kafka_is_not_called_plain(answer):
    """Else a slow port of TLS is told to be plain, and a password is sent there that everybody can read."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server, answer), daemon=True).start()
        port = look_at(f"127.0.0.1:{server.getsockname()[1]}", trust_of(ANY), 0.3)

    assert port.is_open
    assert port.is_tls is None


@pytest.mark.parametrize("value", ["false", "False", "0", "f"])
def test_each_false_of_librdkafka_takes_any_certificate(value):
    """Librdkafka has three spellings of false."""
    trust = trust_of(ANY | {"enable.ssl.certificate.verification": value})

    assert trust is not None
    assert trust.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize("place", ["probe", "/etc/ssl/certs"])
def test_authorities_in_a_folder_are_read(place):
    """Librdkafka takes a folder, and 'probe' for the system's authorities."""
    trust = trust_of({"security.protocol": "SSL", "ssl.ca.location": place})

    assert trust is not None
    assert trust.verify_mode == ssl.CERT_REQUIRED


def _serve(server, answer):
    kept = []
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        kept.append(connection)
        if answer:
            connection.recv(1000)
            connection.sendall(answer)
