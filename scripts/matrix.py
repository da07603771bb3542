"""`make matrix`: every front door on every platform, on one real broker; the table of docs/platforms.md.

A cell is `ok`, or a sentence that says which PySpark has what this one lacks. Anything else is a fault, and ends the
run with an error: also a refusal where nothing may be refused. The page is written in any case: it says what is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from platforms import PYSPARKS, ROOT, Platform, python_version, pythons

from kafka_direct.testing import LocalKafka

DOORS = ROOT / "integration_tests/doors.py"
PAGE = ROOT / "docs/platforms.md"
BEGIN, END = "<!-- make matrix writes what follows -->\n", "<!-- end of what make matrix writes -->\n"
SECONDS = 900  # for all doors of a platform
ITSELF = "PySpark itself"
# PySparks whose Python data sources lack something, and what needs them. All else is `ok` everywhere.
MAY_REFUSE = {"3.5.9", "4.0.5", "4.1.4"}
OF_THE_SOURCE = {"batch read", "query", "batch write", "query write", "kafka_direct.source", "lag of a query"}


def platforms() -> list[Platform]:
    """Each PySpark on each Python; the oldest with the lowest of all else; the newest on OTHER_JAVA_HOME."""
    found = pythons()
    every = [Platform(pyspark=pyspark, python=python) for pyspark in PYSPARKS for python in found]
    oldest = Platform(pyspark=PYSPARKS[0], python=found[0], lowest=True)
    java_home = os.environ.get("OTHER_JAVA_HOME")
    other = [Platform(pyspark=PYSPARKS[-1], python=found[0], java_home=java_home)] if java_home else []
    return [oldest, *every, *other]


def measure(platform: Platform, servers: str) -> dict[str, object]:
    """What each door answers, and the versions."""
    with tempfile.TemporaryDirectory(prefix="matrix-", ignore_cleanup_errors=True) as folder:
        command = [platform.program, str(DOORS), servers, folder]
        log = Path(folder, "log")
        with log.open("w") as errors:
            started = subprocess.Popen(command, env=platform.environment(), cwd=folder, stdout=errors, stderr=errors)
            try:
                started.wait(SECONDS)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
        told = Path(folder, "answers").read_text() if Path(folder, "answers").exists() else ""
        answers = {line["door"]: line["answer"] for line in map(json.loads, told.splitlines())}
        if started.returncode != 0:
            answers.setdefault(ITSELF, "failed: " + log.read_text()[-3000:])
            answers["the end"] = f"failed: the program ended with {started.returncode}: {log.read_text()[-1000:]}"
        return answers


def faults(platform: Platform, answers: dict[str, object]) -> list[str]:
    """What is neither `ok` nor a refusal that may be."""
    if answers[ITSELF] != "ok" and not platform.is_declared:
        return []
    may_refuse = OF_THE_SOURCE if platform.pyspark in MAY_REFUSE else set()
    wrong = {name: text for name, text in answers.items() if isinstance(text, str) and text != "ok"}
    return [
        f"{platform.name}, {name}: {text}"
        for name, text in wrong.items()
        if not (name in may_refuse and text.startswith("refused: "))
    ]


def table(rows: list[tuple[Platform, dict[str, object]]]) -> str:
    """The answers as Markdown, each sentence once."""
    doors = list(dict.fromkeys(name for _, answers in rows for name in answers if name not in {"versions", ITSELF}))
    notes: list[str] = []

    def cell(text: object) -> str:
        if text == "ok":
            return "ok"
        sentence = str(text).partition(": ")[2].strip().splitlines()[-1:] or ["no answer"]
        if (note := f"{str(text).partition(':')[0]}: {sentence[0]}") not in notes:
            notes.append(note)
        return f"{str(text).partition(':')[0]} [{notes.index(note) + 1}]"

    lines = [["PySpark", "Python", "Java", "confluent-kafka", "pyarrow", *doors]]
    lines.append(["---"] * len(lines[0]))
    for platform, answers in rows:
        versions = answers.get("versions", {})
        known = [str(versions.get(name, "")) for name in ("java", "confluent-kafka", "pyarrow")]
        if answers[ITSELF] == "ok":
            told = [cell(answers.get(name, "failed: no answer")) for name in doors]
        else:
            told = [f"PySpark itself does not run: {cell(answers[ITSELF])}", *[""] * (len(doors) - 1)]
        lines.append([platform.pyspark, python_version(platform.python), *known, *told])
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return text + "".join(f"\n{number}. {note}" for number, note in enumerate(notes, 1)) + ("\n" if notes else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="platforms whose name has this, as 4.3.0-3.13; writes no page")
    only = parser.parse_args().only
    rows, wrong = [], []
    with LocalKafka() as kafka:
        for platform in platforms():
            if only not in platform.name:
                continue
            began = time.monotonic()
            platform.install()
            installed = time.monotonic()
            rows.append((platform, measure(platform, kafka.bootstrap_servers)))
            wrong += faults(*rows[-1])
            kinds = Counter(str(text).partition(":")[0] for name, text in rows[-1][1].items() if name != "versions")
            counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            seconds = f"{installed - began:.0f} s to install, {time.monotonic() - installed:.0f} s to run"
            print(f"{platform.name}: {counts} ({seconds})", file=sys.stderr, flush=True)
    print(found := table(rows))
    if not only:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{found}\n{END}{rest.split(END)[1]}")
    if wrong:
        sys.exit("\n\n".join(["These are neither ok nor refused where they may be:", *wrong]))


if __name__ == "__main__":
    main()
