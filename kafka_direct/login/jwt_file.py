"""A token that another program keeps in a file, such as Kubernetes' of a service account."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from pathlib import Path

from kafka_direct.errors import ConfigError

from .config import parse_config


def token(config: str | None) -> tuple[str, float]:
    """The file's token as it is now, and when it expires, which it says itself.

    Raises:
        ConfigError: the file cannot be read or holds no token; the message shows nothing of it.
    """
    path = parse_config(config, ("file",)).get("file")
    if path is None:
        raise ConfigError("sasl.oauthbearer.config names no file; write file=/path/of/the/token.")
    try:
        text = Path(path).read_text(encoding="ascii").strip()
        claims = text.split(".")[1]
        return text, float(json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    except OSError as error:
        raise ConfigError(f"the token's file {path!r} cannot be read ({error.strerror}); correct the path.") from None
    except (Base64Error, IndexError, KeyError, TypeError, ValueError):
        raise ConfigError(
            f"{path!r} holds no JSON Web Token with the time of its end (exp); correct the file."
        ) from None
