"""`kafka-direct offsets`: what is printed, to the letter, and what is refused before any broker is asked."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from kafka_direct.cli import main
from kafka_direct.cli.offsets._files import backup_name
from kafka_direct.cli.offsets._table import duration, render_reset, render_show, reset_facts, show_facts
from kafka_direct.cli.offsets.reset import _parse_where
from kafka_direct.cli.talk import printable
from kafka_direct.offsets import Available, Batch, OffsetLog, OffsetRange, TopicPartition
from kafka_direct.offsets.model.position import At
from kafka_direct.offsets.operate.partition_state import measure
from kafka_direct.offsets.operate.reset import Shift, plan_reset
from kafka_direct.offsets.operate.standing import BatchState, Standing, UnfinishedBatch
from kafka_direct.offsets.operate.stream_place import StreamPlace

O0, O1, O2, P0 = (TopicPartition(t, p) for t, p in (("orders", 0), ("orders", 1), ("orders", 2), ("payments.eu", 0)))
NOW = 1_795_000_000_000
STANDING = Standing(
    committed={O0: 1000, O1: 40, O2: 7, P0: 0},
    reached={O0: 1000, O1: 40, O2: 7, P0: 0},
    topic_ids={"orders": "x"},
    last_batch=42,
    last_state=BatchState.PLANNED,
    last_ms=NOW - 12_000,
    unfinished=(UnfinishedBatch(id=42, start={O0: 1000, O1: 40, P0: 0}, end={O0: 1180, O1: 40, P0: 5}),),
)
THERE = Available(
    earliest={O0: 0, O1: 100, O2: 0}, latest={O0: 1200, O1: 150, O2: 7}, topic_ids={"orders": "x", "payments.eu": "y"}
)
TIMES = {O0: NOW - 182_000, O1: NOW - 90_000_000}

SHOWN = """\
stream orders in /lake/chk/kafka_direct/orders
batch 42, of 12s ago: planned, not committed
batch 42 is planned and not committed, and runs again at the next start: orders-0 1000 → 1180, payments.eu-0 0 → 5
TOPIC        PARTITION  COMMITTED  EARLIEST   END  LAG    AGE  LOST
orders               0       1000         0  1200  200  3m 2s  -
orders               1         40       100   150   50  1d 1h  60 aged out
orders               2          7         0     7    0      -  -
payments.eu          0          0         -     -    -      -  partition deleted"""

MOVED = """\
stream orders in /lake/chk/kafka_direct/orders
TOPIC        PARTITION  PRIOR      NEW  RE-READ  SKIPPED
orders               0   1000  →   900      100        0
orders               1     40  →   100        0        0  clamped from 50
orders               2      7  →  1000        0        0  out of range: 0 to 7
payments.eu          0      0  →     5        0        0  no such partition
                                            100        0  in all"""


@pytest.fixture
def place(monkeypatch):
    return StreamPlace(OffsetLog("/lake/chk", "orders"), "orders")


def moves():
    clamped = plan_reset({O1: 50}, STANDING, THERE, clamp=True)
    others = plan_reset({O0: 900, O2: 1000, P0: 5}, STANDING, THERE, clamp=False)
    return tuple(sorted((*clamped, *others), key=lambda move: move.topic_partition))


def test_the_table_of_show(place):
    """Position, what is there, lag in records and in time, loss by cause, and the batch that will run again."""
    assert render_show(place, STANDING, measure(STANDING, THERE), TIMES, NOW) == SHOWN


def test_the_table_of_reset(place):
    """Prior and new position, what is read again and what is never read, what was clamped and what cannot be."""
    assert render_reset(place, moves()) == MOVED


def test_json_has_the_same_facts(place):
    """Scripts get numbers, with units in their names; what nobody knows is null."""
    shown = show_facts(place, STANDING, measure(STANDING, THERE), TIMES, NOW)
    moved = reset_facts(place, moves(), executed=False)

    assert json.loads(json.dumps(shown)) == shown
    assert (shown["kind"], shown["name"], shown["batch"], shown["state"]) == ("stream", "orders", 42, "planned")
    assert (shown["batchTimeMs"], shown["planned"]) == (NOW - 12_000, [42])
    assert shown["partitions"][1] == {
        "topic": "orders",
        "partition": 1,
        "committed": 40,
        "earliest": 100,
        "end": 150,
        "lag": 50,
        "ageMs": 90_000_000,
        "lost": 60,
        "cause": "aged out",
    }
    assert shown["partitions"][3]["end"] is shown["partitions"][3]["ageMs"] is None
    assert moved["partitions"][1] == {
        "topic": "orders",
        "partition": 1,
        "prior": 40,
        "wanted": 50,
        "new": 100,
        "earliest": 100,
        "end": 150,
        "reread": 0,
        "skipped": 0,
    }


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (Standing(committed={}, reached={}), "no position"),
        (
            Standing(committed={O0: 1}, reached={}, last_batch=3, last_state=BatchState.RESET, last_ms=NOW),
            "batch 3, of 0s ago: a reset",
        ),
        (
            Standing(committed={}, reached={}, unfinished=(UnfinishedBatch(id=0, start={}, end={O0: 0}),)),
            "batch 0 is planned and not committed, and runs again at the next start: no records",
        ),
        (
            Standing(
                committed={},
                reached={},
                unfinished=(UnfinishedBatch(id=0, start={}, end={TopicPartition("t", n): 1 for n in range(9)}),),
            ),
            "t-0 0 → 1, t-1 0 → 1, t-2 0 → 1, t-3 0 → 1 and 5 more",
        ),
        (
            Standing(committed={}, reached={}, unfinished=(UnfinishedBatch(id=8, start={}, end={}, is_reset=True),)),
            "batch 8 is a reset that was broken off: reset again before the query starts",
        ),
    ],
)
def test_other_standings(place, standing, said):
    """A stream without a position, one that was reset, a batch without records, one with many partitions."""
    assert said in render_show(place, standing, measure(standing, None), {}, NOW)


@pytest.mark.parametrize(
    ("ms", "text"),
    [(-5, "0s"), (59_999, "59s"), (3_600_000, "1h"), (3_661_000, "1h 1m"), (86_400_000 * 400 + 1000, "400d 1s")],
)
def test_durations(ms, text):
    """Two units are enough."""
    assert duration(ms) == text


# -- on a checkpoint, without brokers


@pytest.fixture
def checkpoint(tmp_path):
    log = OffsetLog(str(tmp_path / "chk"), "orders")
    for number in range(2):
        ranges = (OffsetRange("t", 0, 10 * number, 10 * number + 10), OffsetRange("t", 1, 0, 0))
        log.plan(Batch(id=number, ranges=ranges, times=(1000,)))
    log.commit(0)
    return tmp_path / "chk"


def run(*arguments):
    return CliRunner().invoke(main, ["offsets", *map(str, arguments)])


def test_a_checkpoint_alone_is_shown(checkpoint):
    """Without brokers what the checkpoint says is shown."""
    shown = run("show", "--checkpoint", checkpoint)

    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[2:] == [
        "batch 1 is planned and not committed, and runs again at the next start: t-0 10 → 20",
        "TOPIC  PARTITION  COMMITTED  EARLIEST  END  LAG  AGE  LOST",
        "t              0         10         -    -    -    -  -",
        "t              1          0         -    -    -    -  -",
    ]
    chosen = run("show", "--checkpoint", checkpoint, "--topic", "t:1", "--output", "json")
    assert [p["partition"] for p in json.loads(chosen.stdout)[0]["partitions"]] == [1]


def test_export(checkpoint):
    """As Kafka's tool writes it, or as Spark's options take it."""
    assert run("export", "--checkpoint", checkpoint).stdout == "t,0,10\nt,1,0\n"
    assert run("export", "--checkpoint", checkpoint, "--output", "json").stdout == '{"t":{"0":10,"1":0}}\n'
    assert run("export", "--checkpoint", checkpoint, "--topic", "t:1").stdout == "t,1,0\n"
    assert run("export", "--checkpoint", checkpoint, "--topic", "x").exit_code == 3


CHK, GROUP, SERVERS = ("--checkpoint", "{chk}"), ("--group", "g"), ("--bootstrap-servers", "localhost:1")
RESET = ("reset", *CHK, *SERVERS, "--all-topics")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show"], "give --group GROUP or --checkpoint PATH"),
        (["show", *CHK, *GROUP], "give --group GROUP or --checkpoint PATH"),
        (["show", *GROUP], "this needs Kafka: give --bootstrap-servers HOST:PORT"),
        (["show", "--group", " ", *SERVERS], "--group is empty"),
        (["show", "--checkpoint", ""], "--checkpoint is empty"),
        (["show", *GROUP, *SERVERS, "--stream", "x"], "--stream belongs to --checkpoint"),
        (["show", *CHK, "--stream", "x"], "there is no x in {chk}; it has orders."),
        (["show", *CHK, "--topic", "t:x"], "--topic 't:x' is not of the form NAME or NAME:0,3"),
        (["show", *GROUP, "--topic", "t:x"], "--topic 't:x' is not of the form NAME or NAME:0,3"),
        (["show", *CHK, "--topic", f"t:{'1' * 5000}"], "is not of the form NAME or NAME:0,3"),
        (["show", *CHK, "--topic", ":1"], "--topic ':1' is not of the form"),
        (["show", *CHK, "--topic", "t:"], "--topic 't:' is not of the form"),
        (["show", "--checkpoint", "{chk}/nothing"], "is no checkpoint with a Kafka position"),
        (["show", "--checkpoint", "ftp://host/x", "--no-jvm"], "pyarrow has no file system for"),
        (["show", *CHK, "--command-config", "{chk}/none"], "--command-config {chk}/none cannot be read: No such file"),
        (["show", *CHK, "--command-config", "{chk}"], "--command-config {chk} cannot be read: Is a directory"),
        ([*RESET], "say where to; give one of them"),
        ([*RESET, "--to-earliest", "--to-latest"], "--to-earliest, --to-latest: exclude each other"),
        ([*RESET, "--to-earliest", "--to", "5"], "--to-earliest, --to: exclude each other"),
        ([*RESET, "--to", "lastest"], "--to: 'lastest' is not a position; did you mean latest?"),
        ([*RESET, "--to-datetime", "today"], "--to-datetime: 'today' is not a time"),
        ([*RESET, "--by-duration", "10m"], "--by-duration: '10m' is not a duration"),
        ([*RESET, "--from-file", "{chk}/none"], "--from-file {chk}/none cannot be read: No such file"),
        ([*RESET, "--topic", "t", "--to-earliest"], "--topic and --all-topics exclude each other"),
        (["reset", *CHK, *SERVERS, "--to-earliest"], "say what to move: --all-topics, or --topic"),
        ([*RESET, "--to-offset", "-1"], "Invalid value for '--to-offset'"),
        ([*RESET, "--to-offset", "1e3"], "Invalid value for '--to-offset'"),
        ([*RESET, "--to", '{{"t":{{"0":1}}}}', "--dry-run", "--execute"], "--dry-run and --execute exclude each other"),
        (["reset", *CHK, "--all-topics", "--to-current"], "this needs Kafka"),
        (["import", *CHK, *SERVERS, "--from-file", "-", "--create"], "give --checkpoint and --stream NAME"),
        (["import", *CHK, *SERVERS, "--from-file", "-", "--create", "--stream", "../x"], "--stream '../x' cannot be"),
        (["import", *CHK, *SERVERS, "--from-file", "-", "--create", "--stream", "orders"], "is there already; leave"),
    ],
)
def test_what_cannot_be_meant(checkpoint, arguments, said):
    """Exit code 2, one sentence on stderr, nothing on stdout; no broker is asked."""
    chk = str(checkpoint)
    given = [argument.format(chk=chk) for argument in arguments]
    done = CliRunner().invoke(main, ["offsets", *given], input="t,0,5")

    assert done.exit_code == 2, done.output
    assert said.format(chk=chk) in done.stderr.replace("\n", " ")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bootstrap.servers=localhost:1\nsasl.pasword=hunter2", "did you mean sasl.password?\n"),
        ("bootstrap.servers=localhost:1\nsasl.jaas.config=hunter2", "sasl.jaas.config"),
        ("bootstrap.servers=localhost:1\nssl.truststore.location=x\nssl.truststore.password=hunter2", "cannot be read"),
        ("sasl.password=hunter2", "this needs Kafka"),
        ("bootstrap.servers=localhost:1\nhunter2", "line 2 is not of the form key=value"),
        ("bootstrap.servers=localhost:1\nsecurity.protocol=hunter2", "security.protocol"),
    ],
)  # fmt: skip
def test_secrets_of_command_config_are_not_shown(tmp_path, text, said):
    """Whatever is wrong with the file, nothing of a secret in it is printed."""
    (tmp_path / "client.properties").write_text(text)
    done = run("show", *GROUP, "--command-config", tmp_path / "client.properties")

    assert done.exit_code == 2
    assert said in done.stderr
    if "security.protocol" not in text:
        assert "hunter2" not in done.output


def test_a_torn_log_is_named(checkpoint):
    """Exit code 1: it is the storage that says no."""
    (checkpoint / "kafka_direct" / "orders" / "offsets" / "1").write_text("{")
    done = run("show", "--checkpoint", checkpoint)

    assert done.exit_code == 1
    assert "offsets/1 is torn or was not written by kafka_direct" in done.stderr


@pytest.mark.parametrize(("name", "kept"), [("orders-1.0", "orders-1.0"), ("team/orders", "team_orders")])
def test_the_old_position_is_kept_in_this_folder(name, kept):
    """Whatever a group is called."""
    assert backup_name(name, datetime(2026, 11, 19, 12, tzinfo=UTC)) == f"offsets-{kept}-20261119T120000Z.csv"


def test_help_has_examples():
    """Each command shows how it is used."""
    for command in ("show", "reset", "export", "import"):
        assert f"kafka-direct offsets {command}" in run(command, "--help").stdout


def test_completion():
    """The shell completes commands and flags, as click has it."""
    env = {
        "_KAFKA_DIRECT_COMPLETE": "bash_complete",
        "COMP_WORDS": "kafka-direct offsets reset --to",
        "COMP_CWORD": "3",
    }
    code = "from kafka_direct.cli import main; main(prog_name='kafka-direct')"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)

    assert {"plain,--to-earliest", "plain,--to-latest", "plain,--topic"} <= set(done.stdout.split())


@pytest.mark.pyspark("4.0")  # an older one is told of the format that it lacks
@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("['offsets', 'reset', '--help']", {"pyspark", "py4j", "confluent_kafka", "pyarrow"}),
        ("['offsets', 'export', '--checkpoint', '{chk}']", {"pyspark", "py4j", "confluent_kafka"}),
        ("['offsets', 'show', '--group', 'g']", {"pyspark", "py4j", "pyarrow"}),
    ],
)
def test_nothing_is_loaded_that_is_not_needed(checkpoint, statement, forbidden):
    """The help waits for nobody, a checkpoint for no Kafka client, a group for no file system; nobody for a JVM."""
    code = (
        "import sys\nfrom kafka_direct.cli import main\n"
        f"try: main({statement.format(chk=checkpoint)})\nexcept SystemExit: pass\n"
        f"print('loaded', *[name for name in {sorted(forbidden)!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1].split() == ["loaded"]


@pytest.mark.pyspark("4.0")  # an older one is told of the format that it lacks
def test_it_starts_fast():
    """To its help the command needs no more than twice the time that Python needs to import the Kafka client."""
    commands = {
        "client": ["import confluent_kafka"],
        "help": ["from kafka_direct.cli import main; main(prog_name='kafka-direct')", "offsets", "reset", "--help"],
    }
    seconds = {name: [] for name in commands}
    for _ in range(5):  # in turns, and on the processor's clock: other people's work takes no part in it
        for name, arguments in commands.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", *arguments], capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert min(seconds["help"]) <= 2 * min(seconds["client"])


@pytest.mark.parametrize(("flag", "verb"), [("to_offset", At(0)), ("shift_by", Shift(0))])
def test_zero_is_a_position(flag, verb):
    """0 is an offset like any other, and no answer of no."""
    flags = ("to_earliest", "to_latest", "to_current", "to_offset", "shift_by", "to_datetime", "by_duration")
    given = dict.fromkeys((*flags, "to_position", "from_file"))

    assert _parse_where({**given, "to_earliest": False, flag: 0}) == verb


def test_what_a_terminal_cannot_show():
    """Arrows are spelled where the encoding lacks them; control characters of other people's names are not sent."""
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    utf = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")

    assert printable("1 → 2, …\ngroup \x1b[31m", latin) == "1 -> 2, ...\ngroup ?[31m"
    assert printable("группа", latin) == "\\u0433\\u0440\\u0443\\u043f\\u043f\\u0430"
    assert printable("1 → 2, …\n", utf) == "1 → 2, …\n"
