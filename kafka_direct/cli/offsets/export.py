"""`kafka-direct offsets export`."""

from __future__ import annotations

from typing import Any

import click

from kafka_direct.cli.talk import say, tell
from kafka_direct.errors import Refused
from kafka_direct.offsets.text.listing import encode_csv, encode_json

from ._target import Target, target_options
from ._topics import TopicFilter, unseen

EXAMPLES = """
\b
Examples:
  As kafka-consumer-groups.sh writes it:
    kafka-direct offsets export --bootstrap-servers localhost:9092 --group orders > orders.csv
\b
  For startingOffsets of a new query:
    kafka-direct offsets export --checkpoint /data/orders --output json
"""


@click.command("export", epilog=EXAMPLES, short_help="Print a position as a file that import takes.")
@target_options
@click.option("--topic", "topics", metavar="T[:P,...]", multiple=True, help="Only this topic, or these partitions.")
@click.option("--output", type=click.Choice(["csv", "json"]), default="csv", show_default=True)
def command(**given: Any) -> None:
    """Print committed positions: as CSV of Kafka's own tool (topic,partition,offset), or as Spark's JSON."""
    target, topics = Target(given), TopicFilter.parse(given["topics"])
    place = target.place()
    committed = {p: offset for p, offset in place.standing().committed.items() if p in topics}
    if not committed:
        seen = f", or grant this user {unseen(topics)} (kafka-acls)" if target.group is not None else ""
        raise Refused(f"{place.title} has no position to export; check the name{seen}.")
    for line in target.heading():
        tell(line)
    say((encode_csv if given["output"] == "csv" else encode_json)(committed).removesuffix("\n"))
