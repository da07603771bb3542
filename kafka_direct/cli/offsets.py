"""`kafka-direct offsets`: parse flags, ask, print. What a reset does is decided in `offsets.operate.reset`."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafka_direct.errors import ConfigError, Fenced, KafkaDirectError, Refused
from kafka_direct.offsets import Available, TopicPartition, parse_position
from kafka_direct.offsets.model.position import At, Earliest, Group, Latest, Positions
from kafka_direct.offsets.operate.partition_state import measure
from kafka_direct.offsets.operate.reset import (
    Current,
    Shift,
    changes_nothing,
    plan_reset,
    positions_of,
    refuse_out_of_range,
    topic_ids_after,
)
from kafka_direct.offsets.text.iso_time import parse_datetime, parse_duration
from kafka_direct.offsets.text.listing import decode_listing, encode_csv, encode_json

from .offsets_table import render_reset, render_show, reset_facts, show_facts
from .offsets_target import Target, read_text, target_options
from .talk import say, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafka_direct.offsets.model.position import Position
    from kafka_direct.offsets.operate.place import Place
    from kafka_direct.offsets.operate.reset import PartitionReset, Wanted
    from kafka_direct.offsets.operate.standing import Standing

F = TypeVar("F", bound="Callable[..., Any]")

SHOW_EXAMPLES = """
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

RESET_EXAMPLES = """
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

EXPORT_EXAMPLES = """
\b
Examples:
  As kafka-consumer-groups.sh writes it:
    kafka-direct offsets export --bootstrap-servers localhost:9092 --group orders > orders.csv
\b
  For startingOffsets of a new query:
    kafka-direct offsets export --checkpoint /data/orders --output json
"""

IMPORT_EXAMPLES = """
\b
Examples:
  A group goes on where a query's checkpoint stands:
    kafka-direct offsets export --checkpoint /data/orders |
      kafka-direct offsets import --bootstrap-servers localhost:9092 --group orders --from-file - --execute
\b
  A new direct stream begins where a group stands:
    kafka-direct offsets import ... --checkpoint /data/new --stream orders --create --from-file orders.csv --execute
"""


@click.group()
def offsets() -> None:
    """See where a stream stands, and move it: a consumer group, a direct stream, a Structured Streaming query."""


# -- show


@offsets.command("show", epilog=SHOW_EXAMPLES, short_help="Where a stream stands, and how far behind it is.")
@target_options
@click.option("--topic", "topics", metavar="T[:P,...]", multiple=True, help="Only this topic, or these partitions.")
@click.option("--watch", metavar="SECONDS", type=click.FloatRange(min=0.1), help="Again every so many seconds.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def show_command(**given: Any) -> None:
    """Show committed position, what the brokers have, lag in records and in time, and what is lost to retention.

    AGE is that of the next record to read. Without --bootstrap-servers a checkpoint is shown alone.
    """
    target = Target(given)
    if given["watch"] is None:
        _show(target, given)
        return
    try:
        while True:
            _show_again(target, given)
            time.sleep(given["watch"])
    except KeyboardInterrupt:
        return


def _show_again(target: Target, given: Mapping[str, Any]) -> None:
    click.clear()  # does nothing where there is no terminal
    try:
        _show(target, given, compact=True)
    except ConfigError:
        raise
    except (KafkaDirectError, OSError) as error:
        # Brokers restart, batches are written while they are read: the next look may succeed.
        if isinstance(error, BrokenPipeError):
            raise
        tell(str(error))


def _show(target: Target, given: Mapping[str, Any], *, compact: bool = False) -> None:
    facts, texts = [], []
    for place in target.places():
        standing = place.standing()
        if target.group is not None and not standing.committed:
            raise Refused(f"{place.title} does not exist on Kafka, or has committed nothing; check its name.")
        available = _available(target, standing.partitions()) if target.has_brokers else None
        states = [s for s in measure(standing, available) if _is_chosen(s.topic_partition, given["topics"])]
        behind = {
            s.topic_partition: max(s.committed, s.earliest)
            for s in states
            if s.committed is not None and s.earliest is not None and s.lag
        }
        times_ms = _next_times(target, behind) if behind else {}
        seen = (place, standing, states, times_ms, _now_ms())
        facts.append(show_facts(*seen))
        texts.append(render_show(*seen))
    if given["output"] == "json":
        say(json.dumps(facts) if compact else json.dumps(facts, indent=2))
    else:
        say("\n\n".join(texts) + ("\n" if compact else ""))


def _available(target: Target, partitions: Collection[TopicPartition]) -> Available:
    from kafka_direct.options import Subscription  # noqa: PLC0415

    if not partitions:
        return Available(earliest={}, latest={}, topic_ids={})
    return target.cluster.find_available(Subscription(partitions=frozenset(partitions)))


def _next_times(target: Target, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    from kafka_direct.broker import find_next_times  # noqa: PLC0415

    return find_next_times(target.params, positions)


# -- reset


def _move_options(command: F) -> F:
    options = (
        click.option("--dry-run", is_flag=True, help="Only show what would happen; the default."),
        click.option("--execute", is_flag=True, help="Do it."),
        click.option("--clamp", is_flag=True, help="PartitionReset to the nearer end what would be outside the log."),
        click.option(
            "--force", is_flag=True, help="Also if a stream looks as if it ran: a driver that does then stops."
        ),
        click.option(
            "--backup",
            metavar="FILE",
            help="Where the old position is kept; /dev/null for nowhere.  [default: ./offsets-...csv]",
        ),
        click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True),
    )
    for option in reversed(options):
        command = option(command)
    return command


@offsets.command("reset", epilog=RESET_EXAMPLES, short_help="PartitionReset a stream to another position.")
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
@_move_options
def reset_command(**given: Any) -> None:
    """PartitionReset a stream to another position. Without --execute it is only shown.

    It is refused while the group has members, or the stream seems to run. The position before is kept in a file, which
    import takes to undo it.
    """
    target = Target(given)
    verb = _verb(given)
    if not (given["topics"] or given["all_topics"] or isinstance(verb, Positions)):
        raise ConfigError("say what to move: --all-topics, or --topic NAME[:PARTITION,...].")
    if given["topics"] and given["all_topics"]:
        raise ConfigError("--topic and --all-topics exclude each other; give one of them.")
    place = target.place()
    standing = place.standing()
    if isinstance(verb, Positions):
        wanted: dict[TopicPartition, Wanted] = {p: w for p, w in verb.items() if _is_chosen(p, given["topics"])}
        if not wanted:
            raise ConfigError(f"none of the positions given is of {', '.join(given['topics'])}.")
    else:
        wanted = dict.fromkeys(_scope(target, place, standing, given["topics"]), verb)
    _move(target, place, standing, wanted, given)


def _verb(given: Mapping[str, Any]) -> Wanted | Positions:
    verbs: dict[str, Callable[[Any], Wanted | Positions]] = {
        "to_earliest": lambda _: Earliest(),
        "to_latest": lambda _: Latest(),
        "to_current": lambda _: Current(),
        "to_offset": At,
        "shift_by": Shift,
        "to_datetime": parse_datetime,
        "by_duration": parse_duration,
        "to_position": parse_position,
        "from_file": lambda path: _read_listing(path, given["group"]),
    }
    # Not by equality or truth: 0 is an offset, and equal to False.
    chosen = [name for name in verbs if given[name] is not None and given[name] is not False]
    if len(chosen) != 1:
        flags = [_flag(name) for name in (chosen or verbs)]
        problem = "exclude each other; give one of them" if chosen else "say where to; give one of them"
        raise ConfigError(f"{', '.join(flags)}: {problem}.")
    try:
        return verbs[chosen[0]](given[chosen[0]])
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith("--") else f"{_flag(chosen[0])}: {text}") from None


def _flag(name: str) -> str:
    return "--" + name.removesuffix("_position").replace("_", "-")


def _read_listing(path: str, group: str | None) -> Positions:
    text = read_text(path, "--from-file")
    try:
        return Positions(decode_listing(text, group))
    except ConfigError as error:
        raise ConfigError(f"--from-file {path}: {error}") from None


def _scope(target: Target, place: Place, standing: Standing, topics: Sequence[str]) -> set[TopicPartition]:
    """The partitions that are to be moved."""
    from kafka_direct.options import Subscription  # noqa: PLC0415

    if not topics:
        if not standing.partitions():
            raise ConfigError(f"{place.title} has no position yet, so all topics are none; name them with --topic.")
        return standing.partitions()
    chosen: set[TopicPartition] = set()
    for topic, partitions in map(_parse_topic, topics):
        wanted: list[Any] = [TopicPartition(topic, number) for number in partitions] or [topic]
        found, _ = target.cluster.require(Subscription.parse(wanted))
        chosen |= found
    return chosen


# -- export and import


@offsets.command("export", epilog=EXPORT_EXAMPLES, short_help="Print a position as a file that import takes.")
@target_options
@click.option("--topic", "topics", metavar="T[:P,...]", multiple=True, help="Only this topic, or these partitions.")
@click.option("--output", type=click.Choice(["csv", "json"]), default="csv", show_default=True)
def export_command(**given: Any) -> None:
    """Print committed positions: as CSV of Kafka's own tool (topic,partition,offset), or as Spark's JSON."""
    place = Target(given).place()
    committed = {p: o for p, o in place.standing().committed.items() if _is_chosen(p, given["topics"])}
    if not committed:
        raise Refused(f"{place.title} has no position to export; check the name.")
    say((encode_csv if given["output"] == "csv" else encode_json)(committed).removesuffix("\n"))


@offsets.command("import", epilog=IMPORT_EXAMPLES, short_help="PartitionReset a stream to what export printed.")
@target_options
@click.option("--from-file", metavar="FILE", required=True, help="What export printed, or JSON; - is stdin.")
@click.option("--create", is_flag=True, help="Begin the log of a new direct stream, named by --stream.")
@_move_options
def import_command(**given: Any) -> None:
    """PartitionReset a stream to the positions of a file. Without --execute it is only shown."""
    target = Target(given)
    wanted: dict[TopicPartition, Wanted] = dict(_read_listing(given["from_file"], given["group"]))
    place = target.new_stream() if given["create"] else target.place()
    _move(target, place, place.standing(), wanted, given)


# -- moving


def _move(
    target: Target, place: Place, standing: Standing, wanted: Mapping[TopicPartition, Wanted], given: Mapping[str, Any]
) -> None:
    if given["dry_run"] and given["execute"]:
        raise ConfigError("--dry-run and --execute exclude each other; give one of them.")
    _refuse_other_topics(place, standing, wanted)
    now_ms = _now_ms()
    available = _available(target, wanted.keys())
    moves = plan_reset(_resolve(target, wanted, standing, available, now_ms), standing, available, clamp=given["clamp"])
    obstacle = place.obstacle(now_ms)
    if given["output"] == "table":
        say(render_reset(place, moves))
    for caution in place.caution(standing):
        tell(f"note: {caution}")
    if given["execute"]:
        if obstacle is not None and not given["force"]:
            raise Refused(obstacle)
        _execute(target, place, standing, moves, available, given["backup"])
    else:
        _tell_dry_run(moves, obstacle)
    if given["output"] == "json":
        say(json.dumps(reset_facts(place, moves, executed=given["execute"]), indent=2))


def _refuse_other_topics(place: Place, standing: Standing, wanted: Collection[TopicPartition]) -> None:
    # A group may hold anything. A stream would take a topic that it does not read for one that it has lost.
    known = {partition.topic for partition in standing.partitions()}
    others = sorted({partition.topic for partition in wanted} - known)
    if place.kind != "group" and known and others:
        raise Refused(
            f"{place.title} does not read {', '.join(others)}, but {', '.join(sorted(known))}; leave it out: a stream "
            "finds topics that are added to it by itself."
        )


def _resolve(
    target: Target,
    wanted: Mapping[TopicPartition, Wanted],
    standing: Standing,
    available: Available,
    now_ms: int,
) -> dict[TopicPartition, int]:
    from kafka_direct.engine.start import resolve_positions  # noqa: PLC0415

    offsets, positions = positions_of(wanted, standing)
    if Group() in positions.values():
        raise ConfigError("'group' is no position here; export the group, and import what it prints.")
    there: dict[TopicPartition, Position] = {p: w for p, w in positions.items() if p in available.earliest}
    found = resolve_positions(
        there, available, find_times=target.cluster.find_times, committed=lambda _: {}, now_ms=now_ms
    )
    gone = {p: standing.committed.get(p, 0) for p in positions.keys() - there.keys()}
    return {**gone, **offsets, **found}


def _tell_dry_run(moves: tuple[PartitionReset, ...], obstacle: str | None) -> None:
    try:
        refuse_out_of_range(moves)
    except Refused as refused:
        tell(f"--execute would be refused: {refused}")
    if obstacle is not None:
        tell(f"--execute would be refused: {obstacle}")
    tell("Nothing was changed; add --execute to do it.")


def _execute(  # noqa: PLR0913, PLR0917
    target: Target,
    place: Place,
    standing: Standing,
    moves: tuple[PartitionReset, ...],
    available: Available,
    backup: str | None,
) -> None:
    refuse_out_of_range(moves)
    topic_ids = topic_ids_after(moves, standing, available)
    if changes_nothing(moves, standing, topic_ids):
        tell("Nothing was changed: it stands there already.")
        return
    kept = _keep(standing, backup or _backup_name(place.name, datetime.now(UTC)))
    new = {**standing.committed, **{move.topic_partition: move.new for move in moves}}
    written = place.reset(new, topic_ids, _now_ms())
    if place.standing().committed != new:
        raise Fenced(f"{written} was written, and reads back otherwise: something else writes there; stop that.")
    tell(f"Done: {written}.")
    if kept is not None:
        undo = ["kafka-direct", "offsets", "import", *target.flags(), "--from-file", kept, "--execute"]
        tell(f"To undo it: {shlex.join(undo)}")


def _backup_name(name: str, now: datetime) -> str:
    """A file in this folder, also for a group whose name has a slash."""
    return f"offsets-{re.sub('[^A-Za-z0-9._-]', '_', name)}-{now:%Y%m%dT%H%M%SZ}.csv"


def _keep(standing: Standing, path: str) -> str | None:
    """Write the position that is about to be left to a new file; None if there is none, or it is not to be kept."""
    if not standing.committed or path == os.devnull:
        return None
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(encode_csv(standing.committed))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Refused(
            f"nothing was changed: the old position could not be kept in {path} ({reason}); give another file with "
            "--backup."
        ) from None
    return path


# -- topics


def _parse_topic(text: str) -> tuple[str, tuple[int, ...]]:
    """Kafka's form of a topic with some of its partitions, `orders:0,3`."""
    name, colon, numbers = text.partition(":")
    parts = numbers.split(",") if colon else []
    if not name or not all(re.fullmatch("[0-9]{1,10}", part) for part in parts):
        raise ConfigError(f"--topic {text!r} is not of the form NAME or NAME:0,3; partitions are numbers from 0.")
    return name, tuple(map(int, parts))


def _is_chosen(partition: TopicPartition, topics: Sequence[str]) -> bool:
    chosen = [_parse_topic(text) for text in topics]
    return not chosen or any(
        partition.topic == topic and (not numbers or partition.partition in numbers) for topic, numbers in chosen
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
