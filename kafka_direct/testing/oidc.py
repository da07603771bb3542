"""An OIDC server for tests, without Docker: mock-oauth2-server, from Maven's jars, fetched once.

    with LocalOidc(expiry_seconds=5) as oidc, LocalKafka(security=Security(oidc=oidc)) as kafka:
        Consumer(kafka.login("oauthbearer", "alice"))

It gives a token to every client, whatever its secret: `sub`, the principal in Kafka, is the client's id.
`kill()`, `restart()`, `freeze()` and `thaw()` are its faults. Its keys are new after `restart()`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.request import urlopen

from .jar import Wanted, fetched_jars
from .java import find_java
from .node import HOST
from .server import Server

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "6.0.2"
ISSUER = "kafka"
MAIN = "no.nav.security.mock.oauth2.StandaloneMockOAuth2ServerKt"
JAVA_OPTIONS = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class LocalOidc(Server):
    """Tokens by client credentials, signed with a key that `jwks_url` shows; a context manager.

    A token holds for `expiry_seconds`. With less than 15, librdkafka is refused now and then: it logs in again at 90 %
    of a token's life, and looks only once a second whether 80 % have passed and it needs a new one.
    The first use downloads 30 MB.

    Raises:
        KafkaStartError: no Java, no jars, or it does not start; the text has the last lines of its log.
    """

    name = "oidc"
    scope = "kafka"
    audience = "kafka"

    def __init__(self, *, expiry_seconds: int = 3600, timeout: float = 60.0) -> None:
        super().__init__(timeout=timeout)
        self._expiry = expiry_seconds

    @property
    def issuer(self) -> str:
        self._started()
        return f"http://{HOST}:{self._port}/{ISSUER}"

    @property
    def token_url(self) -> str:
        return f"{self.issuer}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self.issuer}/jwks"

    @property
    def java_options(self) -> tuple[str, ...]:
        """Kafka's Java asks no address that is not named in its options."""
        return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.token_url},{self.jwks_url}",)

    def _prepare(self) -> None:
        self._java = [find_java(), *JAVA_OPTIONS, "-cp", str(_jars() / "*"), MAIN]

    def _command(self, *, is_first: bool) -> list[str]:  # noqa: ARG002  it keeps nothing
        mapping = {
            "requestParam": "grant_type",
            "match": "client_credentials",
            "claims": {"sub": "${clientId}", "aud": [self.audience], "scope": self.scope},
        }
        tokens = {"issuerId": ISSUER, "tokenExpiry": self._expiry, "requestMappings": [mapping]}
        config = self._folder / "oidc.json"
        config.write_text(json.dumps({"httpServer": "NettyWrapper", "tokenCallbacks": [tokens]}))
        where = [f"SERVER_HOSTNAME={HOST}", f"SERVER_PORT={self._port}", f"JSON_CONFIG_PATH={config}"]
        return ["env", *where, *self._java]

    def _is_up(self) -> bool:
        try:
            with urlopen(self.jwks_url, timeout=10) as answer:
                return bool(answer.read())
        except OSError:
            return False


def _jars() -> Path:
    modules = (("no.nav.security", "mock-oauth2-server", VERSION),)
    without = (("junit", "*"), ("org.hamcrest", "*"))
    return fetched_jars(
        Wanted(f"mock-oauth2-server-{VERSION}", "An OIDC server", "30 MB", modules, True, without=without)
    )
