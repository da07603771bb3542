"""The report of a run: a table, lines of JSON, a plot."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

from rich.console import Console
from rich.table import Table


def machine():
    """What the figures were measured on."""
    import confluent_kafka
    import pyspark

    return {
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "confluent_kafka": confluent_kafka.__version__,
        "librdkafka": confluent_kafka.libversion()[0],
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def print_table(rows):
    table = Table("work", "who", "median s", "min to max s", "s per M", "ratio", "of", "CPU s per M records", "peak MB")
    last = None
    for row in rows:
        table.add_row(
            "" if row["contest"] == last else row["contest"],
            row["contestant"],
            f"{row['median_s']:.3f}",
            f"{row['min_s']:.3f} to {row['max_s']:.3f}",
            "" if row["s_per_million"] is None else f"{row['s_per_million']:.2f}",
            "" if row["ratio"] is None else f"{row['ratio']:.2f}",
            row["baseline"] if row["contestant"] != row["baseline"] else "",
            _shown(row["cpu_s_per_million"]),
            _shown(row["peak_mb"]),
        )
        last = row["contest"]
    Console(width=None if os.isatty(1) else 170).print(table)


def _shown(by_role):
    return ", ".join(f"{role} {value}" for role, value in by_role.items() if value)


def write(folder, rows, facts, notes):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine(), "notes": notes, "facts": facts, "rows": rows}
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    if any(row["ratio"] is not None for row in rows):
        draw(folder / "report.svg", rows)


def draw(path, rows):
    """The ratios, a bar each; 1 is the baseline of its contest."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    shown = [row for row in rows if row["ratio"] is not None and row["contestant"] != row["baseline"]]
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.28 * len(shown)), layout="constrained")
    for place, row in enumerate(reversed(shown)):
        ours = "JVM" not in row["contestant"]
        axes.barh(place, row["ratio"], color="#4c78a8" if ours else "#bab0ac")
        axes.text(row["ratio"], place, f" {row['ratio']:.2f}", va="center", fontsize=8)
    labels = [f"{row['contest']}: {row['contestant']} / {row['baseline']}" for row in reversed(shown)]
    axes.set_yticks(range(len(shown)), labels, fontsize=8)
    axes.axvline(1, color="#e45756", linewidth=1)
    axes.set_xlabel("ratio of median times; less is faster", loc="right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    plt.close(figure)
