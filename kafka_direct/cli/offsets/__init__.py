"""`kafka-direct offsets`. Each module here without a leading underscore is one verb, and defines its `command`.

The verbs parse flags, ask and print. What they print is computed in `kafka_direct.offsets.operate`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import click


@click.group()
def offsets() -> None:
    """See where a stream stands, and move it: a consumer group, a direct stream, a Structured Streaming query."""


for _module in iter_modules(__path__):
    if not _module.name.startswith("_"):
        offsets.add_command(import_module(f"{__name__}.{_module.name}").command)
