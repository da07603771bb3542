"""`kafka-direct rate simulate`: results on stdout, talk on stderr, exit code 2 for what cannot be meant."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from kafka_direct.cli import main

SMALL = ("--speed", "2000", "--backlog", "3000", "--batches", "4")

TABLE = """\
batch  time_s  arrived   lag  in_flight  rate  records  processing_ms  scheduling_delay_ms  total_delay_ms
    1       1     1000  4000          0  1000     1000            600                    0             600
    2       2     1000  4000          0  1667     1666            933                    0             933
    3       3     1000  3334          0  1786     1785            993                    0             993
    4       4     1000  2549          0  1798     1797            998                    0             998
"""


def run(*arguments):
    return CliRunner().invoke(main, ["rate", "simulate", *arguments])


def test_table():
    """The table shows each batch, the verdict stands on stderr."""
    result = run("--arrival", "1000", *SMALL)

    assert result.exit_code == 0
    assert result.stdout == TABLE
    assert result.stderr == "Settled after 0 batches: from then on every delay is within 25% of the interval of 1s.\n"


def test_csv_and_json_agree():
    """CSV and JSON hold the same cells under the same names."""
    from_csv = list(csv.DictReader(io.StringIO(run(*SMALL, "--output", "csv").stdout)))
    from_json = json.loads(run(*SMALL, "--output", "json").stdout)

    assert [row["records"] for row in from_json] == [1000, 1666, 1785, 1797]
    assert [{key: str(value) for key, value in row.items()} for row in from_json] == from_csv


def test_no_rate():
    """A rate that does not exist is a dash in the table, null in JSON, nothing in CSV."""
    off = (*SMALL, "--no-backpressure")

    assert run(*off).stdout.splitlines()[1].split()[5] == "-"
    assert json.loads(run(*off, "--output", "json").stdout)[0]["rate"] is None
    assert run(*off, "--output", "csv").stdout.splitlines()[1].split(",")[5] == ""


def test_spark_behaviour():
    """Spark's rules take the whole backlog in the first batch."""
    rows = json.loads(run(*SMALL, "--behaviour", "spark", "--output", "json").stdout)

    assert rows[0]["records"] == 8000


@pytest.mark.parametrize("behaviour", ["kafka-direct", "spark"])
def test_plot(tmp_path, behaviour):
    """The plot is a PNG, beside the table, also where one batch towers over all others."""
    target = tmp_path / "run.png"
    result = run("--backlog", "1000000", "--behaviour", behaviour, "--plot", str(target))

    assert result.exit_code == 0
    assert target.read_bytes().startswith(b"\x89PNG")
    assert result.stdout.startswith("batch")


def test_plot_without_matplotlib(tmp_path, monkeypatch):
    """Without matplotlib one sentence says what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "kafka_direct.cli.rate_plot", raising=False)
    result = run(*SMALL, "--plot", str(tmp_path / "run.png"))

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == "Error: --plot needs matplotlib: pip install 'kafka-direct[plot]'.\n"


@pytest.mark.parametrize("name", ["no/such/folder/run.png", "run.what"])
def test_plot_that_cannot_be_written(tmp_path, name):
    """A path that cannot be written is one sentence, not a traceback."""
    result = run(*SMALL, "--plot", str(tmp_path / name))

    assert result.exit_code == 2
    assert "--plot cannot write" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--arrival", "lots"), "The pattern 'lots' cannot be read: write 5000"),
        (("--interval", "soon"), "--interval is 'soon'; give a time such as"),
        (("--speed", "0"), "lowest processing speed is 0.0"),
        (("--batches", "0"), "number of batches is 0"),
        (("--integral", "-1"), "spark.streaming.backpressure.pid.integral is -1.0"),
        (("--max-rate-per-partition", "nan"), "spark.streaming.kafka.maxRatePerPartition is nan"),
        (("--initial-rate", "0"), "spark.streaming.backpressure.initialRate is 0.0"),
    ],
)
def test_refusals(arguments, says):
    """What cannot be meant is one sentence on stderr and exit code 2."""
    result = run(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {says}")
    assert result.stderr.count("\n") == 1


def test_help_has_examples():
    """Help shows commands to copy, and each of them runs."""
    text = run("--help").stdout
    examples = [line.split()[3:] for line in text.splitlines() if line.strip().startswith("kafka-direct rate simulate")]

    assert len(examples) == 5
    for example in examples:
        without_plot = example[: example.index("--plot")] if "--plot" in example else example
        assert run(*without_plot).exit_code == 0


def test_main_help():
    """The command lists its groups, and refuses a group that does not exist."""
    runner = CliRunner()

    assert "rate        See what backpressure settings do" in runner.invoke(main, ["-h"]).stdout
    assert runner.invoke(main, ["weather"]).exit_code == 2


def test_help_imports_nothing_heavy():
    """Help does not wait for matplotlib, nor for the groups."""
    script = (
        "import sys; from click.testing import CliRunner; from kafka_direct.cli import main; "
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0; "
        "sys.exit(' '.join({'matplotlib', 'kafka_direct.cli.rate'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.stderr.strip() == ""
