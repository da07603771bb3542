"""The job of test_secrets_stay_hidden.py: each front door with planted secrets, and all that it leaves behind.

`python secrets_job.py FOLDER` reads `FOLDER/given.json`, and writes what a stranger could see into `FOLDER/seen`. Its
checkpoints and Spark's event log stand there too, and the test adds what it prints.
"""

import contextlib
import io
import json
import sys
import urllib.request
from pathlib import Path

from click.testing import CliRunner
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext

from kafka_direct import OffsetRange, createDirectStream, createRDD
from kafka_direct.cli import main as cli
from kafka_direct.errors import KafkaDirectError
from kafka_direct.options import ClientParams, SinkOptions, SourceOptions
from kafka_direct.sinks import KafkaSink
from kafka_direct.sql.data_source import KafkaDirectSource
from kafka_direct.testing import wait_until

REST = [
    "environment",
    "jobs",
    "stages",
    "executors",
    "sql?details=true&planDescription=true&length=1000",
    "storage/rdd",
]
REDACTED = "(?i)url|secret|password|token|passphrase|jaas|key|oauthbearer.config"
PAGES = ["jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/", "streaming/", "StreamingQuery/"]


class Job:
    def __init__(self, folder):
        self.folder, self.seen = folder, folder / "seen"
        given = json.loads((folder / "given.json").read_text())
        self.logins, self.wrong, self.topic, self.target = (given[k] for k in ("logins", "wrong", "topic", "target"))
        self.is_literal = given["is_literal"]
        builder = SparkSession.builder.master("local[2]").appName("secrets").config("spark.ui.port", "0")
        builder = builder.config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", str(self.new("events")))
        builder = builder.config("spark.eventLog.compress", "false")
        if self.is_literal:
            builder = builder.config("spark.sql.redaction.options.regex", REDACTED)  # docs/security.md says it
        self.session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        self.session.sparkContext.addPyFile(str(Path(__file__).parent / "oidc_token.py"))

    def new(self, name):
        folder = self.seen / name
        folder.mkdir(parents=True)
        return folder

    def note(self, name, content):
        path = self.seen / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def run(self):
        self.read_by_streams()
        for name, params in self.logins.items():
            self.read(name, params)
            self.query(name, params)
            self.write(params)
            self.show(name, params)
            self.pickle(name, params)
        for name, params in self.wrong.items():
            self.fail(name, params)
        self.look_at_pages()
        self.session.stop()

    def read_by_streams(self):
        """A stream for each login, which also writes; with a checkpoint, if its secrets are references."""
        ssc, read = StreamingContext(self.session.sparkContext, 2), []
        if not self.is_literal:
            ssc.checkpoint(str(self.new("stream")))
        for name, params in self.logins.items():
            stream = createDirectStream(ssc, [self.topic], params | {"auto.offset.reset": "earliest"}, name=name)
            sink = KafkaSink(params, self.target, f"copy-{name}")
            self.note(f"texts/{name}-stream", f"{stream!r} {sink!r} {vars(sink)!r} {vars(stream)!r}")
            stream.foreachRDD(lambda rdd, sink=sink: sink.save_partitions(rdd) and read.append(rdd.toDebugString()))
        ssc.start()
        wait_until(lambda: len(read) >= len(self.logins), "what each stream has read", timeout=240)
        ssc.stop(False, False)

    def read(self, name, params):
        rdd = createRDD(self.session.sparkContext, params, [OffsetRange(self.topic, 0, 0, 3)])
        assert rdd.count() == 3
        self.note(f"texts/{name}-rdd", f"{rdd!r} {rdd.toDebugString()!r} {vars(rdd)!r}")
        frame = self.session.read.format("kafka_direct").options(**self.options(params)).load()
        assert frame.count() == 3
        frame.createOrReplaceTempView("records")
        self.note(f"texts/{name}-batch", explained(frame) + explained(self.session.sql("select value from records")))

    def query(self, name, params):
        options = self.options(params) | {"startingOffsets": "earliest"}
        frame = self.session.readStream.format("kafka_direct").options(**options).load()
        self.note(f"texts/{name}-query-frame", explained(frame))
        written = {k: v for k, v in options.items() if k.startswith("kafka.")} | {"topic": self.target}
        writer = frame.select("value").writeStream.format("kafka_direct").options(**written)
        checkpoint = str(self.seen / f"query-{name}")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        told = [query._jsq.explainInternal(True), str(query.status), str(query.lastProgress)]
        self.note(f"texts/{name}-query", "\n".join(told))

    def write(self, params):
        frame = self.session.createDataFrame([("a",)], "value string")
        options = {f"kafka.{key}": value for key, value in params.items()} | {"topic": self.target}
        frame.write.format("kafka_direct").options(**options).mode("append").save()

    def show(self, name, params):
        """The CLI on what the login's own stream and query have left, and a dry reset."""
        config = self.folder / "client.properties"  # the user's own file
        config.write_text("".join(f"{key}={escaped(value)}\n" for key, value in params.items()))
        places = [["--checkpoint", str(self.seen / f"query-{name}")]]
        places += [] if self.is_literal else [["--checkpoint", str(self.seen / "stream"), "--stream", name]]
        for number, place in enumerate(places):
            for command in (["show"], ["reset", "--all-topics", "--to-earliest", "--force"]):
                given = ["offsets", *command, *place, "--command-config", str(config), "--output", "json"]
                done = CliRunner().invoke(cli, given)
                assert done.exit_code == 0, done.output
                self.note(f"texts/{name}-cli-{command[0]}-{number}", done.output)

    def pickle(self, name, params):
        """What goes to workers; a literal secret has to be in it."""
        parsed = ClientParams.parse(params)
        self.note(f"texts/{name}-params", f"{parsed!r} {parsed!s}")
        source = KafkaDirectSource(self.options(params))
        reader = source.reader(source.schema())
        partitions = reader.partitions()
        written = {f"kafka.{key}": value for key, value in params.items()}
        texts = [reader, vars(reader), partitions, SourceOptions.parse(source.options, "batch")]
        self.note(f"texts/{name}-reader", repr([*texts, SinkOptions.parse(written)]))
        if not self.is_literal:
            sink = KafkaSink(params, self.target, "copy")
            self.note(f"pickles/{name}", cloudpickle.dumps([parsed, source, reader, partitions, sink]))

    def fail(self, name, params):
        """A login that is wrong, at each door."""
        options = self.options(params)
        doors = {
            "rdd": lambda: createRDD(self.session.sparkContext, params, [OffsetRange(self.topic, 0, 0, 3)]).count(),
            "batch": lambda: self.session.read.format("kafka_direct").options(**options).load().count(),
            "sink": lambda: KafkaSink(params, self.target, f"wrong-{name}").positions([self.topic]),
        }
        for door, use in doors.items():
            with self.noted_error(f"errors/{name}-{door}"):
                use()

    @contextlib.contextmanager
    def noted_error(self, name):
        try:
            yield
        except Exception as error:  # noqa: BLE001  whatever it is, what it shows counts
            shown = f"{error!s} {error!r} {vars(error)!r}" if isinstance(error, KafkaDirectError) else str(error)
            self.note(name, shown)
            return
        raise AssertionError(f"{name} did not fail")

    def options(self, params):
        return {f"kafka.{key}": value for key, value in params.items()} | {"subscribe": self.topic}

    def look_at_pages(self):
        context = self.session.sparkContext
        port, found = context.uiWebUrl.rsplit(":", 1)[1], []
        numbers = json.loads(fetch(port, f"api/v1/applications/{context.applicationId}/sql?length=1000"))
        found += [f"api/v1/applications/{context.applicationId}/{name}" for name in REST]
        found += [f"SQL/execution/?id={execution['id']}" for execution in numbers]
        for number, path in enumerate([*PAGES, *found]):
            self.note(f"pages/{number}", f"{path}\n{fetch(port, path)}")


def fetch(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
        return answer.read().decode()


def escaped(value):
    """As Java's properties want it."""
    return value.replace("\n", "\\n")


def explained(frame):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        for mode in ("extended", "formatted", "codegen", "cost"):
            if not frame.isStreaming or mode != "codegen":
                frame.explain(mode=mode)
    return f"{text.getvalue()} {frame!r} {frame._jdf.queryExecution().toString()}"


if __name__ == "__main__":
    Job(Path(sys.argv[1])).run()
