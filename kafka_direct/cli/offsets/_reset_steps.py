"""The steps that `reset` and `import` share: plan, show, refuse, back up, write, read back, tell how to undo it."""

from __future__ import annotations

import json
import shlex
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kafka_direct.cli.flags import add_options
from kafka_direct.cli.talk import say, tell
from kafka_direct.errors import ConfigError, Fenced, Refused
from kafka_direct.offsets.model.position import Group
from kafka_direct.offsets.operate.reset import (
    Current,
    changes_nothing,
    plan_reset,
    positions_of,
    refuse_out_of_range,
    topic_ids_after,
)

from ._files import backup_name, write_backup
from ._table import render_reset, reset_facts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_direct.offsets import Available, TopicPartition
    from kafka_direct.offsets.operate.place import Place
    from kafka_direct.offsets.operate.reset import PartitionReset, Wanted
    from kafka_direct.offsets.operate.standing import Standing

    from ._target import Target

reset_options = add_options(
    click.option("--dry-run", is_flag=True, help="Only show what would happen; the default."),
    click.option("--execute", is_flag=True, help="Do it."),
    click.option("--clamp", is_flag=True, help="Move to the nearer end what would be outside the log."),
    click.option("--force", is_flag=True, help="Also if a stream looks as if it ran: a driver that does then stops."),
    click.option(
        "--backup",
        metavar="FILE",
        help="Where the old position is kept; /dev/null for nowhere.  [default: ./offsets-...csv]",
    ),
    click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True),
)


def run_reset(
    target: Target, place: Place, standing: Standing, wanted: Mapping[TopicPartition, Wanted], given: Mapping[str, Any]
) -> None:
    """Show what a reset would do, and with `--execute` do it."""
    if given["dry_run"] and given["execute"]:
        raise ConfigError("--dry-run and --execute exclude each other; give one of them.")
    _refuse_other_topics(place, standing, wanted)
    now_ms = _now_ms()
    available = target.available(wanted.keys())
    offsets = _resolve(target, wanted, standing, available, now_ms)
    resets = plan_reset(offsets, standing, available, clamp=given["clamp"])
    obstacles = _obstacles(target, place, now_ms)
    if given["output"] == "table":
        say("\n".join([*target.heading(), render_reset(place, resets)]))
    for caution in place.caution(standing):
        tell(f"note: {caution}")
    if given["execute"]:
        if obstacles and not given["force"]:
            raise Refused(obstacles[0])
        refuse_out_of_range(resets)
        topic_ids = topic_ids_after(resets, standing, available)
        if changes_nothing(resets, standing, topic_ids):
            tell("Nothing was changed: it stands there already.")
        else:
            backup = write_backup(standing, given["backup"] or backup_name(place.name, datetime.now(UTC)))
            staying = frozenset(p for p, want in wanted.items() if isinstance(want, Current))
            _execute(place, standing, resets, topic_ids, staying)
            _tell_undo(target, backup)
    else:
        _tell_dry_run(resets, obstacles)
    if given["output"] == "json":
        say(json.dumps({**reset_facts(place, resets, executed=given["execute"]), "through": target.through}, indent=2))


def _obstacles(target: Target, place: Place, now_ms: int) -> list[str]:
    reach = None if target.reach is None else target.reach.obstacle
    return [obstacle for obstacle in (place.obstacle(now_ms), reach) if obstacle is not None]


def _refuse_other_topics(place: Place, standing: Standing, wanted: Collection[TopicPartition]) -> None:
    # A group may have offsets of any topic. A stream that does not read the topic would report it as lost.
    known = {partition.topic for partition in standing.partitions()}
    others = sorted({partition.topic for partition in wanted} - known)
    if place.kind != "group" and known and others:
        raise Refused(
            f"{place.title} does not read {', '.join(others)}, but {', '.join(sorted(known))}; leave it out: a stream "
            "finds topics that are added to it by itself."
        )


def _resolve(
    target: Target, wanted: Mapping[TopicPartition, Wanted], standing: Standing, available: Available, now_ms: int
) -> dict[TopicPartition, int]:
    from kafka_direct.engine.start import resolve_positions  # noqa: PLC0415

    offsets, positions = positions_of(wanted, standing)
    if Group() in positions.values():
        raise ConfigError("'group' is no position here; export the group, and import what it prints.")
    there = {p: position for p, position in positions.items() if p in available.earliest}
    found = resolve_positions(
        there, available, find_times=target.cluster.find_times, committed=lambda _: {}, now_ms=now_ms
    )
    gone = {p: standing.committed.get(p, 0) for p in positions.keys() - there.keys()}
    return {**gone, **offsets, **found}


def _tell_dry_run(resets: tuple[PartitionReset, ...], obstacles: list[str]) -> None:
    try:
        refuse_out_of_range(resets)
    except Refused as refused:
        obstacles = [str(refused), *obstacles]
    for obstacle in obstacles:
        tell(f"--execute would be refused: {obstacle}")
    tell("Nothing was changed; add --execute to do it.")


def _execute(
    place: Place,
    standing: Standing,
    resets: tuple[PartitionReset, ...],
    topic_ids: Mapping[str, str],
    staying: Collection[TopicPartition],
) -> None:
    if (caution := place.store_caution()) is not None:
        tell(f"note: {caution}")
    new = {**standing.committed, **{reset.topic_partition: reset.new for reset in resets}}
    written = place.reset(new, topic_ids, _now_ms(), {reset.topic_partition for reset in resets}, staying)
    if place.standing().committed != new:
        raise Fenced(f"{written} was written, and reads back otherwise: something else writes there; stop that.")
    tell(f"Done: {written}.")


def _tell_undo(target: Target, backup: str | None) -> None:
    if backup is not None:
        undo = ["kafka-direct", "offsets", "import", *target.flags(), "--from-file", backup, "--execute"]
        tell(f"To undo it: {shlex.join(undo)}")
        if target.hides_secrets:
            tell("(The secrets of the command are left out there: put them in again.)")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
