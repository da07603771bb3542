"""`kafka-direct offsets show`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from kafka_direct.cli.talk import say, tell
from kafka_direct.errors import ConfigError, KafkaDirectError, Refused
from kafka_direct.offsets.operate.partition_state import measure

from ._table import render_show, show_facts
from ._target import Target, target_options
from ._topics import TopicFilter, unseen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets import TopicPartition

EXAMPLES = """
\b
Examples:
  Where a group stands, and how far behind it is:
    kafka-direct offsets show --bootstrap-servers localhost:9092 --group orders
\b
  A direct stream, or a Structured Streaming query, by its checkpoint, every 5 s:
    kafka-direct offsets show --bootstrap-servers localhost:9092 --checkpoint s3://lake/orders --watch 5
\b
  The lag in all, for a script:
    kafka-direct offsets show --bootstrap-servers localhost:9092 --group orders --output json |
      jq '[.[].partitions[].lag] | add'
"""


@click.command("show", epilog=EXAMPLES, short_help="Where a stream stands, and how far behind it is.")
@target_options
@click.option("--topic", "topics", metavar="T[:P,...]", multiple=True, help="Only this topic, or these partitions.")
@click.option("--watch", metavar="SECONDS", type=click.FloatRange(min=0.1), help="Again every so many seconds.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(**given: Any) -> None:
    """Show committed position, what the brokers have, lag in records and in time, and what is lost to retention.

    AGE is that of the next record to read. Without --bootstrap-servers a checkpoint is shown alone.
    """
    target, topics = Target(given), TopicFilter.parse(given["topics"])
    if given["watch"] is None:
        _show(target, topics, given)
        return
    try:
        while True:
            _show_again(target, topics, given)
            time.sleep(given["watch"])
    except KeyboardInterrupt:
        return


def _show_again(target: Target, topics: TopicFilter, given: Mapping[str, Any]) -> None:
    click.clear()  # does nothing without a terminal
    try:
        _show(target, topics, given, compact=True)
    except (ConfigError, BrokenPipeError):
        raise
    except (KafkaDirectError, OSError) as error:
        # A broker may be restarting, or a batch may be being written. The next look may succeed.
        tell(str(error))


def _show(target: Target, topics: TopicFilter, given: Mapping[str, Any], *, compact: bool = False) -> None:
    facts, texts = [], []
    for place in target.places():
        standing = place.standing()
        if target.group is not None and not standing.committed:
            raise Refused(
                f"{place.title} does not exist on Kafka, or has committed nothing that this user sees; check its name, "
                f"or grant this user {unseen(topics)} (kafka-acls)."
            )
        available = target.available(standing.partitions()) if target.has_brokers else None
        states = [state for state in measure(standing, available) if state.topic_partition in topics]
        behind = {
            s.topic_partition: max(s.committed, s.earliest)
            for s in states
            if s.committed is not None and s.earliest is not None and s.lag
        }
        times_ms = _next_times(target, behind) if behind else {}
        seen = (place, standing, states, times_ms, time.time_ns() // 1_000_000)
        facts.append({**show_facts(*seen), "through": target.through})
        texts.append(render_show(*seen))
    if given["output"] == "json":
        say(json.dumps(facts) if compact else json.dumps(facts, indent=2))
    else:
        say("\n".join([*target.heading(), "\n\n".join(texts)]) + ("\n" if compact else ""))


def _next_times(target: Target, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    from kafka_direct.broker import find_next_times  # noqa: PLC0415

    return find_next_times(target.params, positions)
