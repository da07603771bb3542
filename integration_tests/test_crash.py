"""The short form of `make crash`: a few kills and each fault, on both masters, each record once in each sink."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # for those beside this file: pytest's importlib mode adds nothing

from crash_faults import FAULTS

SECONDS = os.environ.get("CRASH_SECONDS", "0")
KILLS = 2  # on each master, at least, and each fault once


@pytest.mark.timeout(1800)
def test_kills_and_faults_lose_and_duplicate_nothing():
    """The harness kills and disturbs, compares, ends with its one line, and says by its exit code if all is well."""
    command = [sys.executable, str(Path(__file__).with_name("crash.py")), "--seconds", SECONDS, "--kills", str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = done.stdout.splitlines()[-1] if done.stdout else ""

    assert done.returncode == 0, done.stdout + done.stderr
    found = re.fullmatch(r"crash: kills=(\d+) faults=(\d+) records=(\d+) lost=0 duplicated=0", last)
    assert found, done.stdout
    assert int(found[1]) >= 2 * KILLS
    assert int(found[2]) >= 2 * len(FAULTS)
    assert int(found[3]) > 0
