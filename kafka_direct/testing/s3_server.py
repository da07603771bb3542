"""Runs moto's S3 on a port, with faults on demand. A script: `python s3_server.py PORT BUCKET`.

It is started by its path and imports nothing of the package. `s3.LocalS3` talks to it below the path /-/:
    GET  /-/requests            what was asked so far, as JSON: [method, path, query, If-None-Match, status] each
    PUT  /-/slow-down/on        answer every request with 503 from now on; `off` ends it
    PUT  /-/lose/TEXT           do the next PUT or POST whose path has this text, and close its connection unanswered
"""

from __future__ import annotations

import io
import json
import socket
import sys
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any

from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple
from werkzeug.wrappers import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Answer = tuple[str, list[tuple[str, str]], bytes]  # the line of the status, headers, body

CONTROL = "/-/"
SLOW_DOWN: Answer = (
    "503 Slow Down",
    [("Content-Type", "application/xml")],
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
)


class FaultyS3:
    """A WSGI application around moto's."""

    def __init__(self) -> None:
        self.moto = create_backend_app("s3")
        # moto looks for the key and then writes it: without the lock two conditional PUTs could both succeed.
        self.lock = Lock()
        self.requests: list[list[Any]] = []
        self.is_slowed_down = False
        self.to_lose: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path: str = environ["PATH_INFO"]
        if path.startswith(CONTROL):
            what, _, argument = path.removeprefix(CONTROL).partition("/")
            status, headers, body = self.control(what, argument)
        else:
            # Read before the lock is taken: a client that stops halfway must not stop the others.
            body = read_body(environ)
            environ["wsgi.input"], environ["CONTENT_LENGTH"] = io.BytesIO(body), str(len(body))
            status, headers, body = self.answer(environ)
        start_response(status, headers)
        return [body]

    def control(self, what: str, argument: str) -> Answer:
        if what == "slow-down":
            self.is_slowed_down = argument == "on"
        elif what == "lose":
            self.to_lose.append(argument)
        return "200 OK", [], json.dumps(self.requests).encode()

    def answer(self, environ: dict[str, Any]) -> Answer:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with self.lock:
            status, headers, body = SLOW_DOWN if self.is_slowed_down else self.ask_moto(environ)
            condition = environ.get("HTTP_IF_NONE_MATCH", "")
            self.requests.append([method, path, environ["QUERY_STRING"], condition, int(status.split()[0])])
            lost = [text for text in self.to_lose if text in path and method in {"PUT", "POST"}]
            for text in lost[:1]:
                self.to_lose.remove(text)
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return status, headers, body

    def ask_moto(self, environ: dict[str, Any]) -> Answer:
        response = Response.from_app(self.moto, environ)
        return response.status, list(response.headers), response.get_data()


def read_body(environ: dict[str, Any]) -> bytes:
    """All that a request brings; pyarrow sends it in chunks and says no length."""
    length = -1 if environ.get("wsgi.input_terminated") else int(environ.get("CONTENT_LENGTH") or 0)
    read: bytes = environ["wsgi.input"].read(length)
    return read


def main() -> None:
    port, bucket = int(sys.argv[1]), sys.argv[2]
    application = FaultyS3()
    created = application.moto.test_client().put(f"/{bucket}", base_url=f"http://127.0.0.1:{port}")
    assert created.status_code == HTTPStatus.OK, created.data
    run_simple("127.0.0.1", port, application, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
