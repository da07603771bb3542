"""`Format`: how the data source's option valueFormat decodes bytes. A new format is a row of `FORMATS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka_direct.errors import ConfigError

from .json_value import check_json_type, decode_json

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Format:
    """`decodes` says which declared types the format decodes; columns of other types are fetched as they are.

    `check` refuses a type that it cannot decode.
    """

    decodes: Callable[[pa.DataType], bool]
    check: Callable[[pa.DataType], None]
    decode: Callable[[pa.Array, pa.DataType], pa.Array]


FORMATS = {
    "binary": Format(lambda _: False, lambda _: None, lambda array, _: array),
    "json": Format(pa.types.is_struct, check_json_type, decode_json),
}


def find_format(name: str) -> Format:
    """The format of that name.

    >>> find_format("avro")
    Traceback (most recent call last):
    kafka_direct.errors.ConfigError: option valueFormat is 'avro'; give binary or json.
    """
    if name not in FORMATS:
        raise ConfigError(f"option valueFormat is {name!r}; give {' or '.join(FORMATS)}.")
    return FORMATS[name]
