"""Google Cloud's managed Kafka, as Java's GcpLoginCallbackHandler logs in: an access token in an envelope."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from datetime import UTC
from typing import Any

from kafka_direct.errors import ConfigError

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_HEADER = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}


def token(_config: str | None) -> tuple[str, float]:
    """A new token of Google's default credentials, and when it expires.

    Raises:
        ConfigError: the package google-auth is not installed.
    """
    try:
        import google.auth  # noqa: PLC0415  an extra
        from google.auth.transport.requests import Request  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            "Google's managed Kafka needs the package google-auth: pip install 'kafka-direct[gcp]' on the driver and "
            "on every executor."
        ) from None
    credentials: Any
    credentials, _ = google.auth.default(scopes=[_SCOPE])
    credentials.refresh(Request())
    expires = credentials.expiry.replace(tzinfo=UTC).timestamp()
    subject: Any = getattr(credentials, "service_account_email", None) or getattr(credentials, "account", "")
    return envelope(credentials.token, subject, expires=expires, now=time.time()), expires


def envelope(access_token: str, subject: str, *, expires: float, now: float) -> str:
    """What Google's brokers take: a bare access token is refused.

    >>> envelope("t", "me@shop", expires=2, now=1)
    'eyJ0eXAiOiJKV1QiLCJhbGciOiJHT09HX09BVVRIMl9UT0tFTiJ9.eyJleHAiOjIsImlhdCI6MSwiaXNzIjoiR29vZ2xlIiwic3ViIjoibWVAc2hvcCJ9.dA'
    """
    claims = {"exp": expires, "iat": now, "iss": "Google", "sub": subject}
    parts = (json.dumps(_HEADER, separators=(",", ":")), json.dumps(claims, separators=(",", ":")), access_token)
    return ".".join(urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
