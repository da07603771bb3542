"""Run the tests of each login at each door, and draw which of them pass.

python docs/images/draw_logins.py docs/images/logins.png
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from kafka_direct.cli.rate_plot import BLUE, ORANGE, STYLE

TESTS = Path(__file__).parent.parent.parent / "integration_tests/test_login_matrix.py"
DOORS = {
    "rdd": "createRDD",
    "stream": "createDirectStream",
    "checkpointed_stream": "... with a checkpoint",
    "batch": "spark.read",
    "query": "spark.readStream",
    "write": "df.write",
    "kafka_sink": "KafkaSink",
    "cli-group": "CLI: a group",
    "cli-stream": "CLI: a stream",
    "cli-query": "CLI: a query",
}
FORMS = {
    "librdkafka": "librdkafka's keys",
    "PKCS12": "Java's keys, PKCS12",
    "JKS": "Java's keys, JKS",
    "PEM": "Java's keys, PEM",
}
CELL = re.compile(r"test_(\w+)\[(?:(group|stream|query)-)?(.+)-(librdkafka|PKCS12|JKS|PEM)(-without TLS)?\]")


def run_tests():
    """Whether each cell passed, by login and door."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-n", "0", "-q", str(TESTS), f"--junit-xml={report}"], check=False
        )
        cases = ET.parse(report).iter("testcase")
        return dict(map(read_cell, cases))


def read_cell(case):
    test, target, how, form, plain = CELL.fullmatch(case.attrib["name"]).groups()
    words = FORMS[form].partition(",")[0] if plain else FORMS[form]  # no store without TLS
    login = f"{how}{', without TLS' if plain else ''}   {words}"
    return (login, f"{test}-{target}" if target else test), not case.findall("failure") + case.findall("error")


def draw(passed, path):
    logins = list(dict.fromkeys(login for login, _ in passed))
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 7.2), layout="constrained")
        for (login, door), works in passed.items():
            place = list(DOORS).index(door), logins.index(login)
            axes.plot(*place, marker="o" if works else "X", markersize=9, color=BLUE if works else ORANGE)
        axes.set_xticks(range(len(DOORS)), DOORS.values(), rotation=40, ha="left")
        axes.set_yticks(range(len(logins)), logins)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.invert_yaxis()
        title = f"{sum(passed.values())} of {len(passed)} work (a dot), each a test on brokers that ask for the login"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(run_tests(), sys.argv[1])
