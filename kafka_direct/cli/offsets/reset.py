"""`kafka-direct offsets reset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafka_direct.cli.flags import prefixed
from kafka_direct.errors import ConfigError
from kafka_direct.offsets import TopicPartition, parse_position
from kafka_direct.offsets.model.position import At, Earliest, Latest, Positions
from kafka_direct.offsets.operate.reset import Current, Shift
from kafka_direct.offsets.text.iso_time import parse_datetime, parse_duration

from ._files import read_listing
from ._reset_steps import reset_options, run_reset
from ._target import Target, target_options
from ._topics import TopicFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka_direct.offsets.operate.place import Place
    from kafka_direct.offsets.operate.reset import Wanted
    from kafka_direct.offsets.operate.standing import Standing

EXAMPLES = """
\b
Examples:
  What would happen if the last hour were read again:
    kafka-direct offsets reset --bootstrap-servers localhost:9092 --checkpoint /data/orders \\
      --all-topics --by-duration PT1H
\b
  The same, done (what was there is exported first, to undo it):
    kafka-direct offsets reset ... --all-topics --by-duration PT1H --execute
\b
  Two partitions of a topic, past a bad record:
    kafka-direct offsets reset ... --topic orders:3,7 --shift-by 1
\b
  Out of a hole that retention has left:
    kafka-direct offsets reset ... --all-topics --to-current --clamp
"""

_PARSERS: dict[str, Callable[[Any], Wanted | Positions]] = {
    "to_earliest": lambda _: Earliest(),
    "to_latest": lambda _: Latest(),
    "to_current": lambda _: Current(),
    "to_offset": At,
    "shift_by": Shift,
    "to_datetime": parse_datetime,
    "by_duration": parse_duration,
    "to_position": parse_position,
}


@click.command("reset", epilog=EXAMPLES, short_help="Move a stream to another position.")
@target_options
@click.option("--topic", "topics", metavar="T[:P,...]", multiple=True, help="This topic, or these partitions of it.")
@click.option("--all-topics", is_flag=True, help="Everything that has a position.")
@click.option("--to-earliest", is_flag=True, help="To the first record that is there.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-current", is_flag=True, help="Where it stands; gives up a batch that is planned.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset.")
@click.option("--shift-by", type=int, metavar="N", help="On by so many offsets, or back if negative.")
@click.option("--to-datetime", metavar="ISO", help="To the first record at or after a time; UTC without a zone.")
@click.option("--by-duration", metavar="PT10M", help="To the first record at or after a time ago.")
@click.option(
    "--to", "to_position", metavar="POSITION", help="earliest+100, latest-100, -10m, @2026-11-18T10:00:00Z, ..."
)
@click.option("--from-file", metavar="FILE", help="To what export printed; - is stdin.")
@reset_options
def command(**given: Any) -> None:
    """Move a stream to another position. Without --execute it is only shown.

    It is refused while the group has members, or the stream seems to run. The position before is kept in a file, which
    import takes to undo it.
    """
    target = Target(given)
    where = _parse_where(given)
    if not (given["topics"] or given["all_topics"] or isinstance(where, Positions)):
        raise ConfigError("say what to move: --all-topics, or --topic NAME[:PARTITION,...].")
    if given["topics"] and given["all_topics"]:
        raise ConfigError("--topic and --all-topics exclude each other; give one of them.")
    topics = TopicFilter.parse(given["topics"])
    place = target.place()
    standing = place.standing()
    if isinstance(where, Positions):
        wanted: dict[TopicPartition, Wanted] = {p: position for p, position in where.items() if p in topics}
        if not wanted:
            raise ConfigError(f"none of the positions given is of {', '.join(given['topics'])}.")
    else:
        wanted = dict.fromkeys(_scope(target, place, standing, topics), where)
    run_reset(target, place, standing, wanted, given)


def _parse_where(given: Mapping[str, Any]) -> Wanted | Positions:
    names = [*_PARSERS, "from_file"]
    # `is`, because 0 is an offset, and 0 == False.
    chosen = [name for name in names if given[name] is not None and given[name] is not False]
    if len(chosen) != 1:
        flags = [_flag(name) for name in (chosen or names)]
        problem = "exclude each other; give one of them" if chosen else "say where to; give one of them"
        raise ConfigError(f"{', '.join(flags)}: {problem}.")
    name = chosen[0]
    if name == "from_file":
        return read_listing(given[name], given["group"])
    with prefixed(_flag(name)):
        return _PARSERS[name](given[name])


def _flag(name: str) -> str:
    return "--" + name.removesuffix("_position").replace("_", "-")


def _scope(target: Target, place: Place, standing: Standing, topics: TopicFilter) -> set[TopicPartition]:
    """The partitions to reset."""
    from kafka_direct.options import Subscription  # noqa: PLC0415

    if not topics.topics:
        if not standing.partitions():
            raise ConfigError(f"{place.title} has no position yet, so all topics are none; name them with --topic.")
        return standing.partitions()
    chosen: set[TopicPartition] = set()
    for topic, partitions in topics.topics:
        wanted: list[Any] = [TopicPartition(topic, number) for number in partitions] or [topic]
        found, _ = target.cluster.require(Subscription.parse(wanted))
        chosen |= found
    return chosen
