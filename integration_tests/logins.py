"""The logins of a secured `LocalKafka` as users write them, also with references instead of secrets."""

from dataclasses import dataclass
from uuid import uuid4

from kafka_direct.options.secret import is_secret


@dataclass(frozen=True)
class Login:
    """`form`: librdkafka's keys, or Java's with stores of that type."""

    how: str
    form: str
    tls: bool = True

    def __str__(self):
        return f"{self.how}-{self.form}" + ("" if self.tls else "-without TLS")

    def params(self, kafka, oidc):
        how = "oauthbearer" if self.how == "oauth_cb" else self.how
        if self.form == "librdkafka":
            params = kafka.login(how, tls=self.tls)
        else:
            params = kafka.java_login(how, tls=self.tls, store=self.form)
        return with_callback(params, oidc) if self.how == "oauth_cb" else params


SASL = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "oauth_cb")
LOGINS = [
    *(Login(how, form) for form in ("librdkafka", "PKCS12") for how in ("ssl", "mtls", *SASL)),
    *(Login("mtls", form) for form in ("JKS", "PEM")),
    *(Login(how, form, tls=False) for form in ("librdkafka", "PKCS12") for how in ("plain", "scram-sha-512")),
]


def with_callback(params, oidc):
    """The same, with a token that a function fetches. Java's JAAS text stays, as a function goes before it."""
    kept = {key: value for key, value in params.items() if not key.startswith("sasl.oauthbearer.")}
    return kept | {"oauth_cb": "oidc_token:fetch", "sasl.oauthbearer.config": oidc.issuer}


def with_references(params, folder):
    """The same, with each secret in a file of its own, unless it is in a variable already."""
    return {
        key: _in_file(value, folder) if is_secret(key) and "env:" not in value else value
        for key, value in params.items()
    }


def _in_file(value, folder):
    path = folder / uuid4().hex
    path.write_text(value)
    return f"file:{path}"
