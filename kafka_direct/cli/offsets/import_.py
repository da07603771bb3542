"""`kafka-direct offsets import`."""

from __future__ import annotations

from typing import Any

import click

from ._files import read_listing
from ._reset_steps import reset_options, run_reset
from ._target import Target, target_options

EXAMPLES = """
\b
Examples:
  A group goes on where a query's checkpoint stands:
    kafka-direct offsets export --checkpoint /data/orders |
      kafka-direct offsets import --bootstrap-servers localhost:9092 --group orders --from-file - --execute
\b
  A new direct stream begins where a group stands:
    kafka-direct offsets import ... --checkpoint /data/new --stream orders --create --from-file orders.csv --execute
"""


@click.command("import", epilog=EXAMPLES, short_help="Move a stream to what export printed.")
@target_options
@click.option("--from-file", metavar="FILE", required=True, help="What export printed, or JSON; - is stdin.")
@click.option("--create", is_flag=True, help="Begin the log of a new direct stream, named by --stream.")
@reset_options
def command(**given: Any) -> None:
    """Move a stream to the positions of a file. Without --execute it is only shown."""
    target = Target(given)
    wanted = read_listing(given["from_file"], given["group"])
    place = target.new_stream() if given["create"] else target.place()
    run_reset(target, place, place.standing(), dict(wanted), given)
