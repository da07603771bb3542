"""`kafka-direct rate simulate`: parse flags, simulate, print. `kafka_direct.rate` decides what a batch may take."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, cast

import click

from kafka_direct.errors import ConfigError
from kafka_direct.parse import parse_duration_ms
from kafka_direct.rate import PidGains, RateSettings, Workload, simulate
from kafka_direct.rate.simulation.pattern import parse_pattern
from kafka_direct.rate.simulation.verdict import judge

from .flags import add_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka_direct.rate.simulation.stream import BatchRow, Behaviour

_COLUMNS = (
    "batch",
    "time_s",
    "arrived",
    "lag",
    "in_flight",
    "rate",
    "records",
    "processing_ms",
    "scheduling_delay_ms",
    "total_delay_ms",
)

EXAMPLES = """
\b
Examples:
  A sink that slows to a fifth after 20 s, drawn:
    kafka-direct rate simulate --arrival 5000 --speed 10000,20s:2000 --plot slow.png
\b
  The same as Spark itself would run it:
    kafka-direct rate simulate --arrival 5000 --speed 10000,20s:2000 --behaviour spark
\b
  A first start on a backlog of a million records:
    kafka-direct rate simulate --backlog 1000000 --initial-rate 2000
\b
  A burst of 30 s, on 8 partitions of at most 1000 records/s each:
    kafka-direct rate simulate --arrival 1000,30s:9000,60s:1000 --partitions 8 --max-rate-per-partition 1000
\b
  A load that swings once in two minutes, as CSV:
    kafka-direct rate simulate --arrival sine:1000..8000/2m --batches 240 --output csv
"""


@click.group()
def rate() -> None:
    """See what backpressure settings do, before a stream runs with them."""


_load_options = add_options(
    click.option("--arrival", metavar="PATTERN", default="5000", show_default=True, help="Records/s that arrive."),
    click.option("--speed", metavar="PATTERN", default="10000", show_default=True, help="Records/s the sink takes."),
    click.option("--overhead", metavar="TIME", default="100ms", show_default=True, help="What every batch costs."),
    click.option("--interval", metavar="TIME", default="1s", show_default=True, help="The batch interval."),
    click.option("--batches", type=int, default=60, show_default=True, help="How many batches to simulate."),
    click.option("--backlog", type=int, default=0, show_default=True, help="Records there before the start."),
    click.option("--partitions", type=int, default=1, show_default=True, help="Partitions, evenly loaded."),
)

_setting_options = add_options(
    click.option("--backpressure/--no-backpressure", default=True, show_default=True, help="…backpressure.enabled"),
    click.option("--initial-rate", type=float, help="…backpressure.initialRate  [default: 1000]"),
    click.option("--proportional", type=float, default=1.0, show_default=True, help="…backpressure.pid.proportional"),
    click.option("--integral", type=float, default=0.2, show_default=True, help="…backpressure.pid.integral"),
    click.option("--derived", type=float, default=0.0, show_default=True, help="…backpressure.pid.derived"),
    click.option("--min-rate", type=float, default=100.0, show_default=True, help="…backpressure.pid.minRate"),
    click.option(
        "--max-rate-per-partition", type=float, default=0, help="…kafka.maxRatePerPartition  [default: 0, no cap]"
    ),
    click.option(
        "--min-rate-per-partition", type=float, default=1, show_default=True, help="…kafka.minRatePerPartition"
    ),
    click.option(
        "--behaviour",
        type=click.Choice(["kafka-direct", "spark"]),
        default="kafka-direct",
        show_default=True,
        help="Whose rules plan the batches.",
    ),
)


@rate.command("simulate", epilog=EXAMPLES, short_help="Show rate, lag and delay of a stream, batch by batch.")
@_load_options
@_setting_options
@click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE.png", help="Draw rate, lag and delay.")
@click.option("--output", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
def simulate_command(**given: Any) -> None:
    """Show rate, lag and delay of a stream, batch by batch, without Spark or Kafka.

    A PATTERN is a rate such as 5000; or steps, 1000,30s:8000,60s:1000, with the time at which each begins; or a
    swing, sine:1000..8000/60s. A TIME is 500ms, 30s, 2m or 1h. The keys after … are Spark's, and begin with
    spark.streaming.
    """
    workload, settings = _workload(given), _settings(given)
    behaviour: Behaviour = given["behaviour"]
    rows = simulate(workload, settings, behaviour=behaviour)
    verdict = judge(rows, workload, settings)
    if given["plot"] is not None:
        _plot(given["plot"], rows, workload, f"{behaviour}: {verdict}")
    click.echo(_RENDERERS[given["output"]](rows))
    click.echo(verdict, err=True)


def _workload(given: Mapping[str, Any]) -> Workload:
    return Workload(
        arrival=parse_pattern(given["arrival"]),
        speed=parse_pattern(given["speed"]),
        overhead_ms=float(parse_duration_ms("--overhead", given["overhead"], bare="s")),
        interval_seconds=float(parse_duration_ms("--interval", given["interval"], bare="s") / 1000),
        batches=given["batches"],
        backlog=given["backlog"],
        partitions=given["partitions"],
    )


def _settings(given: Mapping[str, Any]) -> RateSettings:
    return RateSettings(
        backpressure=given["backpressure"],
        initial_rate=given["initial_rate"],
        gains=PidGains(
            proportional=given["proportional"],
            integral=given["integral"],
            derivative=given["derived"],
            min_rate=given["min_rate"],
        ),
        max_rate_per_partition=given["max_rate_per_partition"],
        min_rate_per_partition=given["min_rate_per_partition"],
    )


def _plot(path: str, rows: Sequence[BatchRow], workload: Workload, title: str) -> None:
    try:
        from .rate_plot import save_plot  # noqa: PLC0415 - matplotlib is optional, and slow to import
    except ModuleNotFoundError as missing:
        # Another missing module is a broken installation, and must not be reported as a missing matplotlib.
        if cast("str", missing.name).partition(".")[0] != "matplotlib":
            raise
        raise ConfigError("--plot needs matplotlib: pip install 'kafka-direct[plot]'.") from None
    try:
        save_plot(path, rows, workload, title)
    except (OSError, ValueError) as error:
        # matplotlib raises ValueError for a file ending that it cannot write.
        raise ConfigError(f"--plot cannot write {path}: {error}.") from error


def _cells(number: int, row: BatchRow) -> tuple[float | None, ...]:
    return (
        number,
        row.time_seconds,
        row.arrived,
        row.lag,
        row.in_flight,
        None if row.rate is None else round(row.rate),
        row.records,
        row.processing_ms,
        row.scheduling_delay_ms,
        row.total_delay_ms,
    )


def _table(rows: Sequence[BatchRow]) -> str:
    body = [[_text(cell) for cell in _cells(number, row)] for number, row in enumerate(rows, start=1)]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *body, strict=True)]
    return "\n".join("  ".join(map(str.rjust, line, widths)) for line in (_COLUMNS, *body))


def _text(cell: float | None) -> str:
    if cell is None:
        return "-"
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def _csv(rows: Sequence[BatchRow]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(_cells(number, row) for number, row in enumerate(rows, start=1))
    return text.getvalue().rstrip("\n")


def _json(rows: Sequence[BatchRow]) -> str:
    return json.dumps(
        [dict(zip(_COLUMNS, _cells(number, row), strict=True)) for number, row in enumerate(rows, start=1)], indent=2
    )


_RENDERERS = {"table": _table, "csv": _csv, "json": _json}
