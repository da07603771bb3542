"""The Java client's `sasl.*`: its login modules and callback handlers, in librdkafka's words.

A login module is known by its name without the package, because vendors move Kafka's classes (`kafkashaded.org...`).
What Java ignores in one is ignored here, and what cannot be exact is refused. A caller's own `oauth_cb` always wins.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError
from kafka_direct.options.secret import check_reference, is_reference

from .jaas import LoginModule, parse_jaas
from .move import move

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    Params = MutableMapping[str, Any]

JAAS = "sasl.jaas.config"
HANDLER = "sasl.login.callback.handler.class"
CLIENT_HANDLER = "sasl.client.callback.handler.class"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
TEMPLATE = "sasl.oauthbearer.assertion.template.file"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
# What is left of Java's login until the client is built, if its JAAS text is a reference.
LATE_KEYS = (JAAS, HANDLER, CLIENT_HANDLER)
PACKAGE = "kafka_direct.login."
MSK_TOKEN = f"{PACKAGE}msk:token"
GCP_TOKEN = f"{PACKAGE}gcp:token"
FILE_TOKEN = f"{PACKAGE}jwt_file:token"

# When Java takes a new token, and how long it tries: librdkafka decides that by itself, at 80 % of a token's life.
_LEFT_OUT = (
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
)
_HANDLERS = {
    "OAuthBearerLoginCallbackHandler": "",
    "OAuthBearerUnsecuredLoginCallbackHandler": "",
    "IAMOAuthBearerLoginCallbackHandler": MSK_TOKEN,
    "GcpLoginCallbackHandler": GCP_TOKEN,
}
_CLIENT_HANDLERS = ("IAMClientCallbackHandler", "OAuthBearerSaslClientCallbackHandler")
_RETRIEVERS = {
    "DefaultJwtRetriever": None,
    "ClientCredentialsJwtRetriever": "client_credentials",
    "JwtBearerJwtRetriever": "urn:ietf:params:oauth:grant-type:jwt-bearer",
}
_OIDC = "sasl.oauthbearer.method=oidc with sasl.oauthbearer.*, or an oauth_cb"
_MSK_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")
_MSK_OPTIONS = ("awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsRoleExternalId", "awsStsRegion")
_EXTENSION = "extension_"
_CLAIM = "unsecuredLoginStringClaim_"


def translate_login(params: Params) -> None:
    """Replace Java's login by librdkafka's keys; one whose JAAS text is a reference stays until a client is built.

    >>> scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    >>> params = {"sasl.jaas.config": f'{scram} required username="alice" password="env:PASSWORD";'}
    >>> translate_login(params)
    >>> params
    {'sasl.username': 'alice', 'sasl.password': 'env:PASSWORD'}

    Raises:
        ConfigError: a login that librdkafka does not have; the message names the keys to use.
    """
    for key in _LEFT_OUT:
        params.pop(key, None)
    _translate_retriever(params)
    if is_reference(params.get(JAAS)):
        check_reference(JAAS, params[JAAS])
        return
    handler = _handler(params)
    text = params.pop(JAAS, None)
    module = LoginModule("", {}) if text is None else parse_jaas(str(text))
    if _is_msk(params, module, handler):
        _log_in_to_msk(params, module.options)
    elif handler == GCP_TOKEN:
        params.setdefault("oauth_cb", GCP_TOKEN)
    elif text is not None:
        _LOGINS.get(module.name, _refuse)(params, module.options)
    elif str(params.get(ENDPOINT)).startswith("file:"):
        _log_in_with_oauth(params, {})


def msk_region(servers: str) -> str | None:
    """The region that the brokers' names tell.

    >>> msk_region("b-1.shop.abc123.c2.kafka.eu-west-1.amazonaws.com:9098")
    'eu-west-1'
    >>> msk_region("boot-x.c1.kafka-serverless.us-east-2.amazonaws.com:9098,other:9098")
    'us-east-2'
    >>> msk_region("broker:9098")
    """
    hosts = (server.strip().rpartition(":")[0].lower() for server in servers.split(","))
    return next((found[1] for host in hosts if (found := _MSK_HOST.search(host))), None)


def _handler(params: Params) -> str:
    """The function that does what the given callback handlers do; '' if none is needed."""
    login, client = (str(params.pop(key, "")).strip() for key in (HANDLER, CLIENT_HANDLER))
    name = login.rpartition(".")[2]
    if "oauth_cb" in params:
        return ""
    if client and client.rpartition(".")[2] not in _CLIENT_HANDLERS:
        raise _unknown_class(CLIENT_HANDLER)
    if name and name not in _HANDLERS:
        raise _unknown_class(HANDLER)
    return _HANDLERS.get(name, "")


def _unknown_class(key: str) -> ConfigError:
    return ConfigError(
        f"{key} names a Java class that has no counterpart here; give sasl.username and sasl.password, or {_OIDC}."
    )


def _is_msk(params: Params, module: LoginModule, handler: str) -> bool:
    mechanisms = {str(params.get(key)).upper() for key in ("sasl.mechanism", "sasl.mechanisms")}
    return handler == MSK_TOKEN or module.name == "IAMLoginModule" or "AWS_MSK_IAM" in mechanisms


def _log_in_to_msk(params: Params, options: dict[str, str]) -> None:
    params.pop("sasl.mechanism", None)
    params["sasl.mechanisms"] = "OAUTHBEARER"
    if "oauth_cb" in params:
        return
    params["oauth_cb"] = MSK_TOKEN
    region = msk_region(str(params.get("bootstrap.servers", "")))
    wanted = ({"region": region} if region else {}) | {k: options[k] for k in _MSK_OPTIONS if k in options}
    if wanted:
        text = " ".join(f"{key}={value}" for key, value in wanted.items())
        params.setdefault("sasl.oauthbearer.config", text)


def _log_in_by_name(params: Params, options: dict[str, str]) -> None:
    if options.get("tokenauth", "").lower() == "true":
        raise ConfigError(
            "sasl.jaas.config asks for a delegation token (tokenauth), which librdkafka does not have in any version; "
            "log in with the user's own name and password, or with a certificate."
        )
    if not {"username", "password"} <= options.keys():
        raise ConfigError('sasl.jaas.config has no username or no password; write username="..." password="...".')
    move(params, JAAS, "sasl.username", options["username"])
    move(params, JAAS, "sasl.password", options["password"])


def _log_in_with_oauth(params: Params, options: dict[str, str]) -> None:
    if "oauth_cb" in params:
        return
    extensions = ",".join(
        f"{key.removeprefix(_EXTENSION)}={value}" for key, value in options.items() if key.startswith(_EXTENSION)
    )
    endpoint = str(params.get(ENDPOINT, ""))
    if endpoint.startswith("file:"):
        del params[ENDPOINT]
        params.setdefault("sasl.oauthbearer.config", f"file={endpoint.removeprefix('file:').removeprefix('//')}")
        params["oauth_cb"] = FILE_TOKEN
    elif f"{_CLAIM}sub" in options:
        move(params, JAAS, "enable.sasl.oauthbearer.unsecure.jwt", "true")
        move(params, JAAS, "sasl.oauthbearer.config", f"principal={options[f'{_CLAIM}sub']}")
    elif endpoint or "clientId" in options:
        move(params, JAAS, "sasl.oauthbearer.method", "oidc")
        for java, librdkafka in (("clientId", "client.id"), ("clientSecret", "client.secret"), ("scope", "scope")):
            if java in options:
                move(params, JAAS, f"sasl.oauthbearer.{librdkafka}", options[java])
        if extensions:
            move(params, JAAS, "sasl.oauthbearer.extensions", extensions)
    else:
        raise ConfigError(f"sasl.jaas.config names OAuthBearerLoginModule alone; give {ENDPOINT} too, or {_OIDC}.")


def _log_in_with_kerberos(params: Params, options: dict[str, str]) -> None:
    if not {"keyTab", "principal"} <= options.keys():
        raise ConfigError(
            "sasl.jaas.config names Krb5LoginModule without keyTab and principal; give both, or sasl.kerberos.keytab "
            "and sasl.kerberos.principal."
        )
    move(params, JAAS, "sasl.kerberos.keytab", options["keyTab"])
    move(params, JAAS, "sasl.kerberos.principal", options["principal"])
    if "serviceName" in options:
        move(params, JAAS, "sasl.kerberos.service.name", options["serviceName"])


def _refuse(_: Params, __: dict[str, str]) -> None:
    raise ConfigError(
        "sasl.jaas.config names a login module that librdkafka does not have; give sasl.mechanisms, sasl.username and "
        f"sasl.password, or {_OIDC}."
    )


_LOGINS = {
    "PlainLoginModule": _log_in_by_name,
    "ScramLoginModule": _log_in_by_name,
    "OAuthBearerLoginModule": _log_in_with_oauth,
    "Krb5LoginModule": _log_in_with_kerberos,
}


def _translate_retriever(params: Params) -> None:
    name = str(params.pop(RETRIEVER, "DefaultJwtRetriever")).rpartition(".")[2]
    if name not in _RETRIEVERS:
        raise ConfigError(f"{RETRIEVER} names a Java class that has no counterpart here; give {_OIDC}.")
    grant = _RETRIEVERS[name]
    if grant is not None:
        move(params, RETRIEVER, "sasl.oauthbearer.method", "oidc")
        move(params, RETRIEVER, "sasl.oauthbearer.grant.type", grant)
    if TEMPLATE in params:
        move(params, TEMPLATE, "sasl.oauthbearer.assertion.jwt.template.file", params.pop(TEMPLATE))
