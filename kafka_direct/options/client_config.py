"""What librdkafka is given, made from parameters where a client is built: on the driver, in each worker, in the CLI.

References are read there, Java's stores and a JAAS text that was a reference are translated there, and a callback that
is text is imported there, so none of them is in a pickle.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import secret
from .callback import import_callback
from .java.login import translate_login
from .java.tls import read_stores

if TYPE_CHECKING:
    from collections.abc import Iterable

FilesState = tuple[int, ...]


def build_config(entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Give librdkafka's keys and their values in this process.

    Raises:
        ConfigError: a reference, a store or a callback is not there; the message names it and shows no secret.
    """
    given = dict(entries)
    references = {key: value for key, value in given.items() if secret.is_reference_to(key, value)}
    config = given | {key: secret.resolve_reference(key, value) for key, value in references.items()}
    translate_login(config)
    read_stores(config)
    secret.remember(str(value) for key, value in config.items() if secret.is_secret(key) or key in references)
    if isinstance(config.get("oauth_cb"), str):
        config["oauth_cb"] = import_callback("oauth_cb", config["oauth_cb"])
    return config


def state_of_files(entries: Iterable[tuple[str, Any]]) -> FilesState:
    """When the files that a client reads were changed last. A client reads them once, when it is built."""
    return tuple(
        _changed_at(secret.reference_path(value) if is_reference else value)
        for key, value in entries
        if (is_reference := secret.is_reference_to(key, value) and value.startswith("file:"))
        or (key.startswith("ssl.") and key.endswith(".location"))
    )


def _changed_at(path: str | Path) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0  # building the client says what is wrong
