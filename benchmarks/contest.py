"""`Contest`: several ways to do one piece of work, timed side by side.

All contestants take turns in each round, so that other work of the machine slows them equally; the first rounds warm up
and are not counted. Every answer is checked: a contestant that is fast and wrong ends the benchmark.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

from benchmarks.cost import Meter


class WrongAnswer(Exception):
    """A contestant did not do the work."""


@dataclass
class Turn:
    seconds: float
    cpu: dict[str, float]  # seconds, by role
    peak: dict[str, int]  # bytes, by role


@dataclass
class Contest:
    """`contestants` are functions without arguments that return `answer`, or `(answer, seconds)` of their own."""

    name: str
    contestants: dict
    answer: object
    records: int
    baseline: str
    turns: dict = field(default_factory=dict)

    def run(self, rounds, warm_ups=1):
        for number in range(warm_ups + rounds):
            for name, work in self.contestants.items():
                measured = self._measure(name, work)
                if number >= warm_ups:
                    self.turns.setdefault(name, []).append(measured)
        return self

    def _measure(self, name, work):
        with Meter() as meter:
            began = time.perf_counter()
            answer, seconds = work(), None
            if isinstance(answer, tuple):
                answer, seconds = answer
            seconds = time.perf_counter() - began if seconds is None else seconds
        if answer != self.answer:
            raise WrongAnswer(f"{self.name}: {name} answered {answer!r}, not {self.answer!r}.")
        return Turn(seconds, meter.cpu, meter.peak)

    def rows(self):
        """A row of figures per contestant; the ratio compares its median to the baseline's."""
        base = self._median(self.baseline) if self.baseline in self.turns else None
        return [self._row(name, turns, base) for name, turns in self.turns.items()]

    def _median(self, name):
        return statistics.median(turn.seconds for turn in self.turns[name])

    def _row(self, name, turns, base):
        seconds = [turn.seconds for turn in turns]
        # An empty batch has a cost, but none per record.
        roles = sorted({role for turn in turns for role in turn.cpu}) if self.records else []
        return {
            "contest": self.name,
            "contestant": name,
            "records": self.records,
            "median_s": round(self._median(name), 4),
            "min_s": round(min(seconds), 4),
            "max_s": round(max(seconds), 4),
            "rounds": len(seconds),
            "s_per_million": round(self._median(name) * 1e6 / self.records, 3) if self.records else None,
            "baseline": self.baseline,
            "ratio": None if base is None else round(self._median(name) / base, 3),
            "cpu_s_per_million": {
                role: round(statistics.median(turn.cpu.get(role, 0) for turn in turns) * 1e6 / self.records, 2)
                for role in roles
            },
            "peak_mb": {role: max(turn.peak.get(role, 0) for turn in turns) >> 20 for role in turns[0].peak},
        }
