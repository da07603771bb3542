"""What the runs of a killed job left behind, and whether it is what the rules of design.md, section 4, promise.

It trusts no code of kafka_direct: the log's files are read as JSON, and all that the job put out is counted again from
the log's ranges and the records that were produced.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from killed_job import NAME, SLIDE, WINDOW

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Evidence:
    """All that is known of a chain of runs on one folder. `produced` grows: (topic, partition, offset) to (key, id)."""

    folder: Path
    produced: dict
    batch_ms: int = 500
    ranges: dict = field(default_factory=dict)  # batch id -> {(topic, partition): (from, until)}, of all runs
    times: dict = field(default_factory=dict)  # batch id -> [batch time, ...]
    committed: set = field(default_factory=set)
    zero: int | None = None  # the zero time of Spark's context: where its state and windows begin

    def take_in(self):
        """Copy the log, which is pruned, and hold it against all that it said before."""
        log = self.folder / "checkpoint/kafka_direct" / NAME
        for path in (*self.files("pruned"), *log.glob("offsets/[0-9]*")):
            batch_id, record = int(path.name.split(".")[0]), read(path)
            ends = offsets_of(record["until"])
            ranges = {p: (start, ends[p]) for p, start in offsets_of(record["from"]).items()}
            assert self.ranges.setdefault(batch_id, ranges) == ranges, f"batch {batch_id} has changed its ranges"
            replays = sorted(log.glob(f"replays/{batch_id}.*"), key=lambda path: int(path.suffix[1:]))
            known_times = self.times.setdefault(batch_id, [])
            logged = list(dict.fromkeys([*record["times"], *(read(path)["time"] for path in replays)]))
            assert logged[: len(known_times)] == known_times, f"batch {batch_id} has lost a time"
            self.times[batch_id] = logged
        self.committed |= {int(path.name.split(".")[0]) for path in log.glob("commits/[0-9]*")}
        self.committed |= {int(path.name.split(".")[0]) for path in self.files("pruned")}
        self.zero = max((read(path)["zero"] for path in self.files("runs")), default=None)

    def check(self, *, failures=()):
        """Check everything that must hold after each run."""
        self.take_in()
        self.check_ranges()
        self.check_records()
        self.check_times()
        for kind in ("counts", "window", "slide"):
            self.check_recount(kind)
        failed = {read(path) for path in self.files("failures")}
        assert all(any(wanted in text for wanted in failures) for text in failed), failed

    def check_ranges(self):
        """Batch ids have no gap, and each partition continues where the batch before ended; a new one begins at 0."""
        assert sorted(self.ranges) == list(range(len(self.ranges)))
        for before, after in pairwise(sorted(self.ranges)):
            ends = {partition: until for partition, (_, until) in self.ranges[before].items()}
            starts = {partition: start for partition, (start, _) in self.ranges[after].items()}
            assert ends.keys() <= starts.keys(), f"batch {after} has forgotten a partition"
            assert starts == dict.fromkeys(starts, 0) | ends, f"batch {after} does not continue batch {before}"
        assert all(start == 0 for start, _ in self.ranges.get(0, {}).values())

    def check_records(self):
        """Every output of a batch has the records of its ranges, in order; a committed batch has its output."""
        written = set()
        for path in self.files("records"):
            batch_id, output = int(path.name.split(".")[0]), read(path)
            assert batch_id in self.ranges, f"batch {batch_id} ran, and the log does not have it"
            assert output["time"] in self.times[batch_id], f"batch {batch_id} ran at a time that the log does not have"
            assert {(t, p): (start, until) for t, p, start, until in output["ranges"]} == self.ranges[batch_id], (
                f"batch {batch_id} had other ranges in {path}"
            )
            assert output["rows"] == self.records(batch_id), f"batch {batch_id} has other records in {path}"
            written.add(batch_id)
        assert self.committed <= written, f"committed without output: {self.committed - written}"

    def records(self, batch_id):
        """The records of a batch as they were produced."""
        return [
            [topic, partition, offset, *self.produced[topic, partition, offset]]
            for (topic, partition), (start, until) in sorted(self.ranges[batch_id].items())
            for offset in range(start, until)
        ]

    def by_time(self):
        """The batch of each batch time of the present context."""
        batches = [(time, id_) for id_, times in self.times.items() for time in times if time > (self.zero or 0)]
        return dict(sorted(batches))

    def check_times(self):
        """A context runs each batch at one time of its own, and none is left out that state or a window needs."""
        by_time = self.by_time()
        twice = {id_: self.times[id_] for id_, number in Counter(by_time.values()).items() if number > 1}
        assert not twice, f"batches have two times in one context, which began at {self.zero}: {twice}"
        gaps = [(a, b) for a, b in pairwise(by_time) if b - a != self.batch_ms]
        assert not gaps or not self.files("counts"), f"no batch between {gaps}"

    def check_recount(self, kind):
        """State and windows, as they were put out at each batch time, equal a recount from the log and the records."""
        by_time = {time: Counter(key for *_, key, _ in self.records(id_)) for time, id_ in self.by_time().items()}
        for path in self.files(kind):
            time = int(path.name.split(".")[0])
            if time <= self.zero:
                continue  # of an earlier context, which had a state of its own
            begin = 0 if kind == "counts" else time - WINDOW * self.batch_ms
            expected = sum((count for t, count in by_time.items() if begin < t <= time), Counter())
            put_out = {key: number for key, number in read(path).items() if number != 0}
            assert put_out == expected, f"{kind} at {time} in {path.name}: {put_out}, recounted {expected}"
            assert kind != "slide" or (time - self.zero) % (SLIDE * self.batch_ms) == 0

    def check_outputs_of(self, kind):
        """Every committed batch time of the present context has an output."""
        every = SLIDE if kind == "slide" else 1
        committed = {
            t
            for t, id_ in self.by_time().items()
            if id_ in self.committed and (t - self.zero) % (every * self.batch_ms) == 0
        }
        assert committed <= {int(path.name.split(".")[0]) for path in self.files(kind)}

    def lost_and_duplicated(self):
        """Record by record, over the idempotent output: one file for each batch id, whatever was written how often."""
        batches = {int(path.name.split(".")[0]): path for path in self.files("records")}
        delivered = Counter(row[4] for path in batches.values() for row in read(path)["rows"])
        wanted = {id_ for _, id_ in self.produced.values()}
        return len(wanted - delivered.keys()), sum(delivered.values()) - len(delivered)

    def uncommitted(self):
        return sorted(self.ranges.keys() - self.committed)

    def end(self):
        """Where the last batch ends: there the group stands when all is finished."""
        return {partition: until for partition, (_, until) in self.ranges[max(self.ranges)].items()}

    def files(self, kind):
        return sorted((self.folder / kind).glob("[0-9]*"))

    def killed(self):
        """How often each moment was the last."""
        return Counter(read(path) for path in self.files("killed"))


def offsets_of(shape):
    return {(topic, int(p)): offset for topic, partitions in shape.items() for p, offset in partitions.items()}


def read(path):
    return json.loads(path.read_text())
