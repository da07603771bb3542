"""An S3 for tests, without Docker: moto's server in a process of its own, with faults on demand. Needs moto and flask.

    with LocalS3() as s3:
        SparkConf().setAll(s3.spark_conf().items())  # before the JVM starts: it names jars
        checkpoint = f"{s3.uri}/checkpoint"

Besides those of every store, its faults are `answer_503()` and `lose_next_answer()`.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from urllib.request import Request, urlopen

from .error import KafkaStartError
from .jar import s3a_jars
from .node import HOST
from .server import Server

SCRIPT = Path(__file__).with_name("s3_server.py")
BUCKET = "kafka-direct"
NEEDED = ("moto", "flask", "flask_cors")


class S3Request(NamedTuple):
    """A request that was answered, or whose answer was lost on demand. `key` is without the bucket."""

    method: str
    key: str
    query: str
    if_none_match: str
    status: int


class LocalS3(Server):
    """A bucket that has conditional writes, in memory: after `kill()` and `restart()` it is empty; a context manager.

    Of concurrent PUTs with `If-None-Match: *` one writes the object, and the others are answered with 412.

    Raises:
        KafkaStartError: moto is missing, or it does not start; the text has the last lines of its log.
    """

    name = "s3"

    @property
    def uri(self) -> str:
        """The bucket, as `s3a://bucket`."""
        return f"s3a://{BUCKET}"

    @property
    def endpoint(self) -> str:
        """The address of the service, as `http://127.0.0.1:port`."""
        self._started()
        return f"http://{HOST}:{self._port}"

    def spark_conf(self) -> dict[str, str]:
        """The jars of S3A, which the first call of a user downloads, and where the bucket is."""
        settings = {
            "endpoint": self.endpoint,
            "endpoint.region": "us-east-1",
            "access.key": "test",
            "secret.key": "test",
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
        }
        return {"spark.jars": s3a_jars()} | {f"spark.hadoop.fs.s3a.{key}": value for key, value in settings.items()}

    def answer_503(self, on: bool) -> None:  # noqa: FBT001
        """From now on, answer every request with 503 Slow Down and do nothing; `False` ends it."""
        self._control("PUT", f"slow-down/{'on' if on else 'off'}")

    def lose_next_answer(self, path_contains: str) -> None:
        """Do the next PUT or POST on such a key, and close its connection without an answer."""
        self._control("PUT", f"lose/{quote(path_contains)}")

    def requests(self) -> list[S3Request]:
        """What was asked so far, in the order of the answers."""
        asked = json.loads(self._control("GET", "requests"))
        return [S3Request(method, path.removeprefix(f"/{BUCKET}").lstrip("/"), *rest) for method, path, *rest in asked]

    def _prepare(self) -> None:
        missing = [name for name in NEEDED if find_spec(name) is None]
        if missing:
            raise KafkaStartError(f"A local S3 needs {', '.join(missing)}: pip install 'moto[s3]' flask flask-cors.")

    def _command(self, *, is_first: bool) -> list[str]:  # noqa: ARG002  an empty bucket each time
        # -P: the modules beside the script must not be taken for others of their names.
        return [sys.executable, "-P", str(SCRIPT), str(self._port), BUCKET]

    def _is_up(self) -> bool:
        try:
            self._control("GET", "requests")
        except OSError:
            return False
        return True

    def _control(self, method: str, path: str) -> Any:
        with urlopen(Request(f"{self.endpoint}/-/{path}", method=method), timeout=10) as answer:
            return answer.read()
