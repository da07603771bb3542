"""Why there is no answer from Kafka, in a sentence: which of the classic mistakes of a login it is, if it is one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_direct.errors import ConfigError
from kafka_direct.options.secret import masked

from .port import Port, look_at, trust_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.options import ClientParams

SECONDS = 3.0  # for a port to answer
MOST_PORTS = 3  # of bootstrap.servers: one that tells is enough

_WHERE = re.compile(r"^(?:\[thrd:[^\]]*\]: )?(?:\w+://)?(?P<address>[^/\s]+)/(?:bootstrap|\d+): ")
_WHEN = re.compile(r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)")
_TOKEN = re.compile(r"Failed to acquire SASL OAUTHBEARER token: ?(?P<why>.*)", re.DOTALL)
_REFUSED = re.compile(r"SASL authentication error: (?P<why>.*)", re.DOTALL)
_ALERT = re.compile(r"alert (?P<alert>[a-z ]+?)(?: required)?: SSL alert number")


class Diagnosis(NamedTuple):
    """`is_final`: another try changes nothing, somebody has to."""

    sentence: str
    is_final: bool


def diagnose(params: ClientParams, complaint: str) -> Diagnosis | None:
    """Look at the brokers' ports, and explain; `complaint` is what the client said last."""
    try:
        config = params.resolved()
        trust = trust_of(config)
    except (ConfigError, OSError):
        return None
    servers = [server.strip() for server in str(config.get("bootstrap.servers", "")).split(",") if server.strip()]
    found = None
    for server in servers[:MOST_PORTS]:
        address = server if re.search(r":\d+$", server) else f"{server}:9092"
        found = explain(look_at(address, trust, SECONDS), config, complaint)
        if found is not None and found.is_final:
            break
    return found


def explain(port: Port, config: Mapping[str, Any], complaint: str) -> Diagnosis | None:
    """What is wrong between a client with this configuration and a port; None if nothing is known to be."""
    protocol = str(config.get("security.protocol", "plaintext")).upper()
    at = port.address
    if not port.is_found:
        return Diagnosis(f"the host of {at} is not known; correct bootstrap.servers", is_final=False)
    if not port.is_open:
        return Diagnosis(f"nothing answers at {at}; start the broker, or correct bootstrap.servers", is_final=False)
    sentence = _about_tls(port, protocol) or _about_sasl(port, protocol, config) or _about_login(config, complaint, at)
    return None if sentence is None else Diagnosis(sentence, is_final=True)


def _about_tls(port: Port, protocol: str) -> str | None:
    at, with_sasl = port.address, protocol.startswith("SASL_")
    if port.is_tls and not protocol.endswith("SSL"):
        return f"{at} speaks TLS and security.protocol is {protocol}; set it to {'SASL_SSL' if with_sasl else 'SSL'}"
    if port.is_tls is False and protocol.endswith("SSL"):
        plain = "SASL_PLAINTEXT" if with_sasl else "PLAINTEXT"
        return f"{at} speaks no TLS and security.protocol is {protocol}; set it to {plain}, or take the port of TLS"
    if "expired" in port.distrust:
        return f"the certificate of {at} has expired; renew it on the broker"
    if "mismatch" in port.distrust.lower():
        return (
            f"the certificate of {at} is for another host ({port.distrust.rstrip('.')}); connect by a name that stands "
            "in it, or set ssl.endpoint.identification.algorithm=none"
        )
    if port.distrust:
        return (
            f"the certificate of {at} is not signed by a known authority ({port.distrust.rstrip('.')}); set "
            "ssl.ca.location, or ssl.truststore.location, to the authority's certificate"
        )
    return None


def _about_sasl(port: Port, protocol: str, config: Mapping[str, Any]) -> str | None:
    at, mechanisms = port.address, port.mechanisms
    if mechanisms is None:
        return None
    if mechanisms and not protocol.startswith("SASL_"):
        wanted = "SASL_SSL" if protocol.endswith("SSL") else "SASL_PLAINTEXT"
        return (
            f"{at} asks for a login and security.protocol is {protocol}; set it to {wanted}, and sasl.mechanisms to "
            f"one of {', '.join(sorted(mechanisms))}"
        )
    if not mechanisms and protocol.startswith("SASL_"):
        return (
            f"{at} takes no login and security.protocol is {protocol}; set it to {protocol.removeprefix('SASL_')}, or "
            "take the port with SASL"
        )
    mechanism = str(config.get("sasl.mechanisms", config.get("sasl.mechanism", "GSSAPI"))).upper()
    if mechanisms and mechanism not in mechanisms:
        return f"{at} has no {mechanism}; set sasl.mechanisms to one of {', '.join(sorted(mechanisms))}"
    return None


def _about_login(config: Mapping[str, Any], complaint: str, at: str) -> str | None:
    """What only the client was told: the broker's words about its password, its token or its certificate."""
    where = _WHERE.match(complaint)
    at, said = (where["address"], complaint[where.end() :]) if where else (at, complaint)
    said = masked(_WHEN.sub("", said)).strip().rstrip(".")
    if token := _TOKEN.search(said):
        return f"no token was had for the login ({token['why']}); correct sasl.oauthbearer.* or oauth_cb"
    if refused := _REFUSED.search(said):
        return f"{at} refuses the login ({refused['why']}); correct {_credentials(config)}"
    if alert := _ALERT.search(said):
        if not config.keys() & {"ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location"}:
            return (
                f"{at} wants a certificate of this client, and there is none ({alert['alert']}); set "
                "ssl.certificate.location and ssl.key.location, or ssl.keystore.location"
            )
        return (
            f"{at} refuses this client's certificate ({alert['alert']}): it has expired, or is not signed by an "
            "authority that the broker trusts; renew it"
        )
    return None


def _credentials(config: Mapping[str, Any]) -> str:
    mechanism = str(config.get("sasl.mechanisms", config.get("sasl.mechanism", ""))).upper()
    if mechanism == "OAUTHBEARER":
        return "sasl.oauthbearer.* or oauth_cb, or what the broker expects of a token"
    return "sasl.username and sasl.password"
