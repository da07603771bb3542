"""Draw the simulated backpressure of a query under four triggers, with the option `checkpointLocation` and without it.

python docs/images/draw_query_triggers.py docs/images/query-triggers.png
"""

from __future__ import annotations

import sys

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from kafka_direct.cli.rate_plot import BLUE, GREY, ORANGE, STYLE
from kafka_direct.rate import Workload
from kafka_direct.rate.simulation.pattern import parse_pattern
from kafka_direct.rate.simulation.query import simulate_query

TARGET = 2
PHASE = 30  # batches
SPEEDS = (20_000, 4_000, 20_000)
TRIGGERS = {0: "none", 1: "1 s", 2: "2 s, as the target", 12: "12 s"}


def draw(path):
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(2, len(TRIGGERS), figsize=(13, 5.6), sharey="row", layout="constrained")
        for (trigger, name), (upper, lower) in zip(TRIGGERS.items(), axes.T, strict=True):
            draw_trigger(upper, lower, trigger)
            upper.set_title(f"trigger: {name}")
            lower.set_xlabel("seconds")
        axes[0, 0].set_ylabel("records/second")
        axes[1, 0].set_ylabel("work of a batch, by the longer\nof target and trigger")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        title = "A backlog and a sink of 20,000/s, five times slower, and fast again; target 2 s, initialRate 118"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        figure.savefig(path, dpi=110)


def draw_trigger(upper, lower, trigger):
    length = max(TARGET, trigger)
    changes = [PHASE * length * phase for phase in range(len(SPEEDS) + 1)]
    pattern = f"{SPEEDS[0]},{changes[1]}s:{SPEEDS[1]},{changes[2]}s:{SPEEDS[2]}"
    workload = Workload(
        speed=parse_pattern(pattern),
        arrival=parse_pattern("0"),
        backlog=10**9,
        interval_seconds=TARGET,
        batches=3000,
    )
    upper.step(changes, [*SPEEDS, SPEEDS[-1]], where="post", color=GREY, label="the sink's speed")
    for knows_ends, colour, label in [(True, ORANGE, "with checkpointLocation"), (False, BLUE, "without it")]:
        rows = simulate_query(workload, trigger_seconds=trigger, initial_rate=118, knows_ends=knows_ends)
        rows = [row for row in rows if row.time_seconds < changes[-1]]
        seconds = [row.time_seconds for row in rows]
        taken = [row.records / (row.seconds + row.waited_seconds) for row in rows]
        upper.step(seconds, taken, where="post", color=colour, linewidth=1.2, label=label)
        lower.step(seconds, [row.seconds / length for row in rows], where="post", color=colour, linewidth=1.2)
    lower.axhline(1, color=GREY, linewidth=1)


if __name__ == "__main__":
    draw(sys.argv[1])
