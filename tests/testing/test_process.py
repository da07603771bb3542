"""What ends with a test kit's processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kafka_direct.testing import wait_until
from kafka_direct.testing.process import ProcessGroup

CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open("child", "w").write(f"{child.pid}.")
child.wait()
"""


def test_what_works_in_the_folder_ends_too():
    """A process may have started others in sessions of their own, as YARN starts containers."""
    group = ProcessGroup()
    told = group.folder / "child"
    group.start("parent", [sys.executable, "-c", CHILD])
    wait_until(lambda: told.exists() and told.read_text().endswith("."), "the child's id")
    child = int(told.read_text()[:-1])
    os.kill(child, 0)  # it is there
    group.close()

    status = Path(f"/proc/{child}/status")
    wait_until(lambda: not status.exists() or "State:\tZ" in status.read_text(), "the child's end")
