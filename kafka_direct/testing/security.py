"""Who may talk to a `LocalKafka`, and how it asks: the brokers' side of each login, as settings. Nothing here runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .certificates import Certificate, Certificates
    from .oidc import LocalOidc

# Each has a port of its own on each node; the value is its security protocol.
LISTENERS = {"SSL": "SSL", "MTLS": "SSL", "SASL_SSL": "SASL_SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT"}
TLS_LISTENERS = ("SSL", "MTLS", "SASL_SSL")
SASL_LISTENERS = ("SASL_SSL", "SASL_PLAINTEXT")
STORE_PASSWORD = "store-secret"  # of every store and every encrypted key
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
USER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # is also a file's name, and part of a certificate's
PASSWORD = re.compile(r"[^\s\"'\\,=\[\]]+")  # stands in Kafka's own small languages, which quote in different ways

MODULES = "org.apache.kafka.common.security"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Users with their passwords, for every login; a user of mTLS is the CN of a certificate that is made at the start.

    With `acls` a user may do what `LocalKafka.allow` names. Super users may do all: `superusers`, and who has no name,
    which is everybody on the plain port and on the port of TLS without a client certificate. With an `oidc` server,
    which must be started, there is OAUTHBEARER. `settings` of `LocalKafka` win over what is set here.
    """

    users: Mapping[str, str] = field(default_factory=lambda: {"alice": "alice-secret", "bob": "bob-secret"}, repr=False)
    acls: bool = False
    superusers: Collection[str] = ()
    oidc: LocalOidc | None = None

    def __post_init__(self) -> None:
        for user, password in self.users.items():
            if not USER_NAME.fullmatch(user):
                raise ConfigError(f"User {user!r} of Security has other characters than letters, digits, . _ and -.")
            if not PASSWORD.fullmatch(password):
                raise ConfigError(f"The password of {user} in Security is empty, or has a space or one of \"'\\,=[].")

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return ("PLAIN", *SCRAM, *(() if self.oidc is None else ("OAUTHBEARER",)))

    def java_options(self) -> tuple[str, ...]:
        """What a Java that talks to the OIDC server must be given."""
        return () if self.oidc is None else self.oidc.java_options

    def format_options(self) -> tuple[str, ...]:
        """Options of `kafka-storage.sh format`, as users of SCRAM are part of a cluster's data."""
        return tuple(
            text
            for mechanism in SCRAM
            for user, password in self.users.items()
            for text in ("--add-scram", f'{mechanism}=[name="{user}",password="{password}"]')
        )

    def settings(self, certificates: Certificates) -> dict[str, str]:
        """The settings of every node."""
        trust = {
            "ssl.truststore.location": str(certificates.truststore_p12),
            "ssl.truststore.password": STORE_PASSWORD,
            "ssl.truststore.type": "PKCS12",
        }
        served = {f"ssl.{key}": value for key, value in key_settings(certificates.server).items()}
        mtls = {
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        }
        # A certificate that is taken while the broker runs may be for another host: tests want such mistakes.
        changes = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
        sasl: dict[str, str] = {}
        for listener in SASL_LISTENERS:
            sasl |= {f"listener.name.{listener.lower()}.{key}": value for key, value in self._sasl().items()}
        return {**trust, **served, **mtls, **changes, **sasl, **self._acl_settings()}

    def _sasl(self) -> dict[str, str]:
        plain = " ".join(f'user_{user}="{password}"' for user, password in self.users.items())
        settings = {
            "sasl.enabled.mechanisms": ",".join(self.mechanisms),
            "plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {plain};",
        }
        for mechanism in SCRAM:
            settings[f"{mechanism.lower()}.sasl.jaas.config"] = f"{MODULES}.scram.ScramLoginModule required;"
        if self.oidc is not None:
            bearer = {
                "sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
                "sasl.server.callback.handler.class": f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler",
                "sasl.oauthbearer.jwks.endpoint.url": self.oidc.jwks_url,
                "sasl.oauthbearer.expected.issuer": self.oidc.issuer,
                "sasl.oauthbearer.expected.audience": self.oidc.audience,
                "sasl.oauthbearer.clock.skew.seconds": "0",
                # With it a broker ends a connection whose token has expired.
                "connections.max.reauth.ms": "3600000",
            }
            settings |= {f"oauthbearer.{key}": value for key, value in bearer.items()}
        return settings

    def _acl_settings(self) -> dict[str, str]:
        names = ("ANONYMOUS", *self.superusers)  # the brokers themselves have no name
        supers = ";".join(f"User:{name}" for name in names)
        return {"authorizer.class.name": AUTHORIZER, "super.users": supers} if self.acls else {}


def key_settings(certificate: Certificate) -> dict[str, str]:
    """Where a broker, or a Java client, finds its key; without the prefix `ssl.`.

    The store and its key have one password.
    """
    return {
        "keystore.location": str(certificate.p12),
        "keystore.password": STORE_PASSWORD,
        "keystore.type": "PKCS12",
    }
