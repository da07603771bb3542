"""What a port speaks, asked on sockets of this process."""

import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest

from kafka_direct.broker.port import look_at, trust_of

ANY = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}


@contextmanager
def serving(answer):
    """A port that takes connections, and says this in each."""

    def serve():
        with ExitStack() as kept:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                kept.enter_context(connection)
                with suppress(OSError):
                    if answer:
                        connection.recv(1000)
                        connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)  # wakes the thread
            thread.join()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_port_that_says_nothing_of_kafka_is_not_called_plain(answer):
    """Else a slow port of TLS is told to be plain, and a password is sent there that everybody can read."""
    with serving(answer) as address:
        port = look_at(address, trust_of(ANY), 0.3)

    assert port.is_open
    assert port.is_tls is None


@pytest.mark.parametrize("value", ["false", "False", "0", "f"])
def test_each_false_of_librdkafka_takes_any_certificate(value):
    """Librdkafka has three spellings of false."""
    trust = trust_of(ANY | {"enable.ssl.certificate.verification": value})

    assert trust is not None
    assert trust.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize("place", ["probe", None])
def test_authorities_in_a_folder_are_read(place, tmp_path):
    """Librdkafka takes a folder, and 'probe' for the system's authorities."""
    trust = trust_of({"security.protocol": "SSL", "ssl.ca.location": place or str(tmp_path)})

    assert trust is not None
    assert trust.verify_mode == ssl.CERT_REQUIRED
