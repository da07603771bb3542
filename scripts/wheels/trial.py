"""`make wheel-trial`: a new user's first minute, on a machine without a compiler.

A new virtual environment that has PySpark, a PATH without compilers, `pip install` of this platform's wheel, and the
first counts of records of a real Kafka: by `createRDD` and by `spark.read`. It must take less than a minute.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from kafka_direct import testing

from .emulated import one_wheel

_SECONDS = 60
_COUNT = 10_000
_COMPILER = re.compile(r"(.*-)?(cc|c\+\+|c89|c99|gcc|g\+\+|clang|tcc|cpp|ld|as)(-?[\d.]+)?")
_PROGRAM = f"""
import sys
from pyspark.sql import SparkSession
from kafka_direct import OffsetRange, createRDD

servers, topic = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rdd = createRDD(spark.sparkContext, {{"bootstrap.servers": servers}}, [OffsetRange(topic, 0, 0, {_COUNT})])
by_rdd = rdd.count()
options = {{"kafka.bootstrap.servers": servers, "subscribe": topic}}
by_source = spark.read.format("kafka_direct").options(**options).load().count()
print("counted", by_rdd, by_source)
"""


def main() -> None:
    arguments = argparse.ArgumentParser(prog="make wheel-trial", description=__doc__)
    arguments.add_argument("--dist", type=Path, default=Path("dist"), help="where the wheels are")
    wheel = one_wheel(arguments.parse_args().dist, f"manylinux2014_{os.uname().machine}")
    with TemporaryDirectory() as folder, testing.LocalKafka() as kafka:
        topic = testing.create_topic(kafka.bootstrap_servers)
        testing.produce(kafka.bootstrap_servers, topic, [f"value {i}" for i in range(_COUNT)])
        python = Path(folder, "venv/bin/python")
        environment = _without_compilers(Path(folder, "bin")) | {"PYSPARK_PYTHON": str(python)}
        subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"pyspark=={version('pyspark')}"], check=True)  # with a compiler or not, and not timed

        begun = time.monotonic()
        subprocess.run([*pip, wheel], env=environment, check=True)
        installed = time.monotonic()
        _expect("compiled loops: yes", [python.with_name("kafka-direct"), "--version"], environment)
        told = time.monotonic()
        _expect(f"counted {_COUNT} {_COUNT}", [python, "-c", _PROGRAM, kafka.bootstrap_servers, topic], environment)
        counted = time.monotonic()
    print(
        f"pip install {installed - begun:.1f} s, kafka-direct --version {told - installed:.1f} s, "
        f"the first counts {counted - told:.1f} s: {counted - begun:.1f} s in all"
    )
    if counted - begun > _SECONDS:
        sys.exit(f"It may take {_SECONDS} s.")


def _without_compilers(folder: Path) -> dict[str, str]:
    """An environment whose PATH has all of the system's commands but compilers, and Java."""
    folder.mkdir()
    java = Path(shutil.which("java") or sys.exit("There is no Java on the PATH.")).resolve().parent
    for command in (*Path("/usr/bin").iterdir(), *Path("/bin").iterdir()):
        link = folder / command.name
        if not _COMPILER.fullmatch(command.name) and not link.is_symlink():
            link.symlink_to(command)
    path = f"{folder}:{java}"
    if found := [name for name in ("cc", "gcc", "clang", "c99") if shutil.which(name, path=path)]:
        sys.exit(f"{', '.join(found)} is still on the PATH.")
    kept = {name: value for name, value in os.environ.items() if name not in {"CC", "PYTHONPATH", "SPARK_HOME"}}
    return kept | {"PATH": path}


def _expect(line: str, command: list[object], environment: dict[str, str]) -> None:
    words, into = [str(word) for word in command], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(words, check=False, env=environment, text=True, **into)
    if done.returncode != 0 or line not in done.stdout.splitlines():
        sys.exit(f"{line!r} was expected, and not:\n{done.stdout}")


if __name__ == "__main__":
    main()
