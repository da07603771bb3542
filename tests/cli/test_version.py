"""`kafka-direct --version`: what is installed, and whether records are read by the compiled loops."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version

import pytest

import kafka_direct

SAID = f"kafka-direct, version {version('kafka-direct')}\ncompiled loops: "


@pytest.mark.parametrize(("switch", "answer"), [("1", "yes" if shutil.which("cc") else "no"), ("0", "no")])
def test_the_version_tells_whether_the_loops_are_compiled(switch, answer):
    """Where reading is slow, this is the first thing to ask."""
    command = [sys.executable, "-c", "from kafka_direct.cli import main; main()", "--version"]
    environment = os.environ | {"KAFKA_DIRECT_COMPILED": switch}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)

    assert (done.stdout, done.stderr, done.returncode) == (f"{SAID}{answer}\n", "", 0)


def test_the_package_knows_its_version():
    """As packages do."""
    assert kafka_direct.__version__ == version("kafka-direct")
