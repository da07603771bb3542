"""A sink that is slowed and sped up again, phase by phase: whether the batches settled in each, and a picture of it."""

from __future__ import annotations

from dataclasses import dataclass

TOLERANCE = 0.25  # of the target
SETTLED_WITHIN = 10  # batches


@dataclass
class Row:
    """A finished batch; `seconds` is its work, `queued` its wait for the batches before it."""

    phase: int
    records: int
    seconds: float
    queued: float = 0.0


def settled_after(rows, target):
    """For each phase: batches before the first three in a row that take about the target; None if there are none."""
    settled = []
    for phase in range(rows[-1].phase + 1):
        is_near = [
            abs(row.seconds - target) <= TOLERANCE * target and row.queued <= TOLERANCE * target
            for row in rows
            if row.phase == phase
        ]
        settled.append(next((n for n in range(len(is_near) - 2) if all(is_near[n : n + 3])), None))
    return settled


def is_settled(settled):
    return all(batches is not None and batches <= SETTLED_WITHIN for batches in settled)


def draw(path, rows, title, *, target, speeds):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 5.2), sharex=True, layout="constrained")
    batches = range(len(rows))
    upper.bar(batches, [row.records for row in rows], color="#4c78a8", width=0.9)
    for phase, speed in enumerate(speeds):
        numbers = [number for number, row in enumerate(rows) if row.phase == phase]
        upper.plot([numbers[0] - 0.5, numbers[-1] + 0.5], [speed * target] * 2, color="#e45756")
        where = (numbers[-1] + 0.5, speed * target)
        upper.annotate(f"the sink takes {speed:,}/s", where, va="bottom", ha="right", fontsize=8)
    upper.set_ylabel("records a batch")
    upper.set_title(title, loc="left")
    lower.bar(batches, [row.seconds for row in rows], color="#54a24b", width=0.9)
    if any(row.queued for row in rows):
        lower.plot(batches, [row.queued for row in rows], color="#b279a2", label="waiting in the queue")
        lower.legend(frameon=False)
    lower.axhline(target, color="#e45756", linewidth=1)
    lower.axhspan(target * (1 - TOLERANCE), target * (1 + TOLERANCE), color="#e45756", alpha=0.15)
    lower.set_ylabel("seconds (target ± 25 %)")
    lower.set_xlabel("batch")
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
