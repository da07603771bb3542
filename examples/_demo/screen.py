"""`Screen`: a line for each batch and each event."""

import math
import sys

from rich.console import Console


class Screen:
    """What the user sees, 80 columns wide; plain text if there is no terminal."""

    BAR = 5

    def __init__(self, records, partitions):
        sys.stdout.reconfigure(errors="replace")
        self._console = Console(highlight=False, soft_wrap=True)
        self._full_bar = records / 2  # of lag
        self._partitions = partitions
        self._empty = []

    def say(self, who, text, style="bold"):
        self._fold()
        self._console.print(f"[{style}]{who:>9}[/]  {text}")

    def wait_for(self, what):
        """A spinner on a terminal, nothing elsewhere."""
        return self._console.status(f"[dim]{what} ...[/]")

    def headings(self):
        partitions = "  ".join(f"{f'partition {partition}':11}" for partition in range(self._partitions))
        self._console.print(f"\n[dim]    batch  records     /s     lag {'':{self.BAR}}  {partitions}[/]")

    def batch(self, report, lag, *, again):
        records = sum(until - start for _, start, until in report["ranges"])
        if records == 0:
            self._empty.append((report["batch"], lag))
            return
        self._fold()
        ranges = "  ".join(f"{f'{start}-{until}':11}" for _, start, until in report["ranges"]).rstrip()
        self._console.print(
            f"[green]{'again' if again else '':5}[/][bold]{report['batch']:4}[/]  {records:7,} "
            f"{records / report['seconds']:6,.0f}  {lag:6,} [yellow]{self._bar(lag)}[/]  [dim]{ranges}[/]"
        )

    def _bar(self, lag):
        eighths = math.ceil(min(lag / self._full_bar, 1) * self.BAR * 8)
        return f"{'█' * (eighths // 8) + ' ▏▎▍▌▋▊▉'[eighths % 8]:{self.BAR}}"[: self.BAR]

    def _fold(self):
        """Show the empty batches since the last line as one."""
        if self._empty:
            ids, lags = zip(*self._empty, strict=True)
            why = "  held back: what is planned already fills the rate" if all(lags) else ""
            self._console.print(f"[dim]{span(ids):>9}        0{why}[/]")
            self._empty = []


def span(ids):
    """The first and the last of some batches: `7`, or `7-9`."""
    return str(ids[0]) if len(ids) == 1 else f"{ids[0]}-{ids[-1]}"
