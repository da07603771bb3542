"""A wheel for another platform reads records of a real broker on this one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_direct import testing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAM = Path(__file__).with_name("read_records.py")
_COUNT = 5000  # more than one chunk


def one_wheel(folder: Path, platform: str) -> Path:
    found = list(folder.glob(f"kafka_direct-*{platform}.whl"))
    if len(found) != 1:
        sys.exit(f"{folder} holds {len(found)} wheels for {platform}, where one is expected; run `make wheels` first.")
    return found[0]


def install_for(platforms: Sequence[str], wheel: Path, python: str, folder: Path) -> None:
    """The wheel and what it reads records with, as pip would install them on another platform."""
    foreign = [argument for platform in platforms for argument in ("--platform", platform)]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    chosen = [*foreign, "--python-version", python, "--implementation", "cp", "--only-binary", ":all:"]
    subprocess.run([*pip, *chosen, "--target", folder, wheel, "confluent-kafka", "pyarrow"], check=True)


def read_there(python: Sequence[str], environment: Mapping[str, str], machine: str, library: str) -> None:
    """Have the other platform's Python read all records, and end with a sentence if one is not as it was sent."""
    topic, sent = (
        "wheels",
        [[None if i % 3 == 0 else f"k{i}", None if i % 5 == 0 else f"zéro {i}"] for i in range(_COUNT)],
    )
    with testing.LocalKafka() as kafka:
        testing.create_topic(kafka.bootstrap_servers, topic)
        first = time.time_ns() // 1_000_000 * 1000  # microseconds, of Kafka's milliseconds
        keys, values = zip(*sent, strict=True)
        testing.produce(kafka.bootstrap_servers, topic, values, keys=keys)
        command = [*python, kafka.bootstrap_servers, topic, str(_COUNT)]
        done = subprocess.run(
            command,
            check=False,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            timeout=300,
        )
        last = time.time_ns() // 1000
    if done.returncode != 0:
        sys.exit(f"{machine}: the program ended with {done.returncode}.")
    got = json.loads(done.stdout)
    times = got.pop("times")
    expected = {
        "machine": machine,
        "loops": library,
        "chunks": ["RecordArray"],
        "texts": sent,
        "columns": [list(keys), list(values)],
        "offsets": list(range(_COUNT)),
    }
    wrong = {name: (got[name], what) for name, what in expected.items() if got[name] != what}
    if wrong or not all(first <= moment <= last for moment in times):
        sys.exit(f"{machine}: other records came than were sent: {str(wrong or times)[:2000]}")
    print(f"{machine}: {_COUNT} records read by {library}, as texts and as columns")
