"""What a client must be told to log in to a secured `LocalKafka`, in librdkafka's words and in Java's. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafka_direct.errors import ConfigError

from .security import MODULES, STORE_PASSWORD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .certificates import Certificate, Certificates
    from .security import Security

How = Literal["ssl", "mtls", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer"]
Store = Literal["PKCS12", "JKS", "PEM"]
TLS_ALONE = {"ssl": "SSL", "mtls": "MTLS"}
SASL = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")


class Logins:
    """The logins of one cluster; `servers` are its addresses by the name of the listener."""

    def __init__(self, security: Security, certificates: Certificates, servers: Mapping[str, str]) -> None:
        self._security = security
        self._certificates = certificates
        self._servers = servers

    def librdkafka(self, how: How, user: str, *, tls: bool = True) -> dict[str, str]:
        params, is_tls = self._where(how, user, tls=tls)
        if is_tls:
            params["ssl.ca.location"] = str(self._certificates.ca_pem)
        if how == "mtls":
            made = self._certificates.users[user]
            params |= {"ssl.certificate.location": str(made.pem), "ssl.key.location": str(made.key)}
        elif how == "oauthbearer":
            oidc = self._security.oidc
            assert oidc is not None
            params |= {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": user,
                "sasl.oauthbearer.client.secret": self._security.users[user],
                "sasl.oauthbearer.scope": oidc.scope,
                "sasl.oauthbearer.token.endpoint.url": oidc.token_url,
            }
        elif how in SASL:
            secret = self._security.users[user]
            params |= {"sasl.mechanism": how.upper(), "sasl.username": user, "sasl.password": secret}
        return params

    def java(self, how: How, user: str, *, tls: bool = True, store: Store = "PKCS12") -> dict[str, str]:
        params, is_tls = self._where(how, user, tls=tls)
        if is_tls:
            params |= _truststore(self._certificates, store)
        if how == "mtls":
            params |= _keystore(self._certificates.users[user], store)
        elif how in SASL:
            params |= self._java_sasl(how, user)
        return params

    def _java_sasl(self, how: How, user: str) -> dict[str, str]:
        secret, oidc = self._security.users[user], self._security.oidc
        if how != "oauthbearer":
            module = "plain.PlainLoginModule" if how == "plain" else "scram.ScramLoginModule"
            jaas = f'{MODULES}.{module} required username="{user}" password="{secret}";'
            return {"sasl.mechanism": how.upper(), "sasl.jaas.config": jaas}
        assert oidc is not None
        options = f'clientId="{user}" clientSecret="{secret}" scope="{oidc.scope}"'
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required {options};",
            "sasl.login.callback.handler.class": f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": oidc.token_url,
        }

    def _where(self, how: How, user: str, *, tls: bool) -> tuple[dict[str, str], bool]:
        """The listener's address and protocol, and whether it is TLS."""
        if how not in TLS_ALONE and how not in SASL:
            raise ConfigError(f"There is no login {how!r}: use one of {', '.join((*TLS_ALONE, *SASL))}.")
        if how in TLS_ALONE and not tls:
            raise ConfigError(f"The login {how!r} is TLS itself: take another one, or leave out tls=False.")
        if how != "ssl" and user not in self._security.users:
            raise ConfigError(f"There is no user {user!r}: Security has {', '.join(self._security.users) or 'none'}.")
        if how == "oauthbearer" and self._security.oidc is None:
            raise ConfigError("The login 'oauthbearer' needs a token server: give Security(oidc=LocalOidc(...)).")
        listener = TLS_ALONE.get(how) or ("SASL_SSL" if tls else "SASL_PLAINTEXT")
        protocol = "SSL" if how in TLS_ALONE else listener
        return {"bootstrap.servers": self._servers[listener], "security.protocol": protocol}, tls


def _truststore(certificates: Certificates, store: Store) -> dict[str, str]:
    files = {"PKCS12": certificates.truststore_p12, "JKS": certificates.truststore_jks, "PEM": certificates.ca_pem}
    where = {"ssl.truststore.location": str(files[store]), "ssl.truststore.type": store}
    return where if store == "PEM" else where | {"ssl.truststore.password": STORE_PASSWORD}


def _keystore(made: Certificate, store: Store) -> dict[str, str]:
    files = {"PKCS12": made.p12, "JKS": made.jks, "PEM": made.keystore_pem}
    where = {"ssl.keystore.location": str(files[store]), "ssl.keystore.type": store}
    if store == "PEM":
        return where | {"ssl.key.password": STORE_PASSWORD}
    return where | {"ssl.keystore.password": STORE_PASSWORD, "ssl.key.password": STORE_PASSWORD}
