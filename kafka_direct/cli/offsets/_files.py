"""The files that flags name: what the commands read, and where a reset keeps the old position."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_direct.cli.flags import prefixed
from kafka_direct.errors import ConfigError, Refused
from kafka_direct.offsets.model.position import Positions
from kafka_direct.offsets.text.listing import decode_listing, encode_csv

if TYPE_CHECKING:
    from datetime import datetime

    from kafka_direct.offsets.operate.standing import Standing


def read_listing(path: str, group: str | None) -> Positions:
    """The positions in a file of `--from-file`; `-` is stdin."""
    text = _read("--from-file", path)
    with prefixed(f"--from-file {path}"):
        return Positions(decode_listing(text, group))


def read_client_config(path: str) -> dict[str, str]:
    """The client settings in a file of `--command-config`; `-` is stdin."""
    from kafka_direct.options.properties import parse_properties  # noqa: PLC0415  help must not wait for it

    text = _read("--command-config", path)
    with prefixed(f"--command-config {path}", end="."):
        return parse_properties(text)


def backup_name(name: str, now: datetime) -> str:
    """A file in the current folder, also for a group with a slash in its name."""
    return f"offsets-{re.sub('[^A-Za-z0-9._-]', '_', name)}-{now:%Y%m%dT%H%M%SZ}.csv"


def write_backup(standing: Standing, path: str) -> str | None:
    """Write the old position to a new file. None if there is no position, or the path is the null device."""
    if not standing.committed or path == os.devnull:
        return None
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(encode_csv(standing.committed))
    except (OSError, ValueError) as error:
        raise Refused(
            f"nothing was changed: the old position could not be kept in {path} ({_reason(error)}); give another file "
            "with --backup."
        ) from None
    return path


def _read(flag: str, path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{flag} {path} is not UTF-8 text.") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{flag} {path} cannot be read: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    # The text of an OSError repeats the path.
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
