"""The plot of a simulated stream: rate, lag and delay over time, one below the other."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from kafka_direct.rate.simulation.verdict import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_direct.rate import Workload
    from kafka_direct.rate.simulation.stream import BatchRow

# The palette of Okabe and Ito: colour-blind readers can tell these apart, and so can everyone in grey.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#8a8a8a"

# Any, because matplotlib gives each key a type of its own.
STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#bbbbbb",
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#eeeeee",
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "legend.frameon": False,
}


def save_plot(path: str, rows: Sequence[BatchRow], workload: Workload, title: str) -> None:
    """Write the plot. The ending of the path decides its format."""
    with mpl.rc_context(STYLE):
        # Without pyplot, which would choose a backend by the environment and keep the figure in memory.
        figure = Figure(figsize=(9, 7.5), layout="constrained")
        FigureCanvasAgg(figure)
        rate, lag, delay = figure.subplots(3, 1, sharex=True)
        seconds = [row.time_seconds for row in rows]
        _draw_rate(rate, seconds, rows, workload)
        _draw_lag(lag, seconds, rows)
        _draw_delay(delay, seconds, rows, workload)
        figure.suptitle(textwrap.fill(title, 100), x=0.01, ha="left", fontsize=11)
        figure.savefig(path, dpi=120)


def _draw_rate(axes: Any, seconds: Sequence[float], rows: Sequence[BatchRow], workload: Workload) -> None:
    interval = workload.interval_seconds
    arrived = [row.arrived / interval for row in rows]
    able = [(workload.speed.until(now + interval) - workload.speed.until(now)) / interval for now in seconds]
    taken = [row.records / interval for row in rows]
    axes.step(seconds, able, where="post", color=GREY, linestyle="--", linewidth=1.2, label="sink can take")
    axes.step(seconds, arrived, where="post", color=GREEN, linewidth=1.2, label="arriving")
    axes.step(seconds, taken, where="post", color=BLUE, linewidth=1.8, label="taken by the batch")
    # One very large batch would flatten all other lines. Cut it off, and write how high it is.
    top = 1.25 * max(*able, *arrived, 1.0)
    axes.set_ylim(0, top)
    if max(taken) > top:
        highest = max(range(len(taken)), key=taken.__getitem__)
        axes.annotate(
            f"{EngFormatter(places=1, sep='')(taken[highest])}/s ↑",
            (seconds[highest], top),
            xytext=(6, -12),
            textcoords="offset points",
            color=BLUE,
        )
    _finish(axes, "Rate, records/s")


def _draw_lag(axes: Any, seconds: Sequence[float], rows: Sequence[BatchRow]) -> None:
    axes.fill_between(seconds, [row.lag for row in rows], step="post", color=BLUE, alpha=0.15, linewidth=0)
    axes.step(seconds, [row.lag for row in rows], where="post", color=BLUE, linewidth=1.8, label="not yet processed")
    axes.step(
        seconds,
        [row.in_flight for row in rows],
        where="post",
        color=ORANGE,
        linewidth=1.2,
        label="of it planned in earlier batches",
    )
    axes.set_ylim(bottom=0)
    _finish(axes, "Lag, records")


def _draw_delay(axes: Any, seconds: Sequence[float], rows: Sequence[BatchRow], workload: Workload) -> None:
    interval = workload.interval_seconds
    waiting = [row.scheduling_delay_ms / 1000 for row in rows]
    total = [row.total_delay_ms / 1000 for row in rows]
    axes.step(seconds, total, where="post", color=BLUE, linewidth=1.8, label="from planned to done")
    axes.fill_between(seconds, waiting, step="post", color=ORANGE, alpha=0.3, linewidth=0, label="of it waiting")
    axes.axhline(interval, color="black", linestyle="--", linewidth=0.9, label=f"batch interval, {interval:g} s")
    axes.set_ylim(0, 1.1 * max(*total, TOLERANCE * interval))
    axes.set_xlabel("time, s")
    _finish(axes, "Delay of each batch, s", engineering=False)


def _finish(axes: Any, title: str, *, engineering: bool = True) -> None:
    axes.set_title(title, fontweight="bold")
    if engineering:
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(length=0)
    # Above the panel, where no line is drawn.
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.2, handlelength=1.4)
    axes.margins(x=0.01)
