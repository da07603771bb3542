"""How a command reaches a checkpoint, what it says of it, and what it never shows."""

from __future__ import annotations

import time

import pytest
from click.testing import CliRunner

from kafka_direct.cli import main, talk
from kafka_direct.cli.reach import Reach
from kafka_direct.errors import ConfigError
from kafka_direct.offsets import Batch, OffsetLog, OffsetRange
from kafka_direct.offsets.store.lease import Lease
from kafka_direct.offsets.store.store import public, unavailable

GIVEN = {"hadoop_conf": (), "hadoop_conf_dir": None, "packages": None, "no_jvm": False}


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://KEY:SECRET@lake/x", "s3://lake/x"),
        ("s3a://KEY:SEC/RE@T@lake/x", "s3a://lake/x"),
        ("s3a://KEY:12/SECRET@lake/x", "s3a://lake/x"),
        ("s3://lake/x?access_key=KEY&secret_key=SECRET", "s3://lake/x"),
        ("hdfs://KEY:SECRET@nn:8020/x", "hdfs://nn:8020/x"),
        ("hdfs://KEY@nn:8020/x", "hdfs://nn:8020/x"),
        ("abfs://container@account.dfs.core.windows.net/x", "abfs://container@account.dfs.core.windows.net/x"),
        ("abfs://container:SECRET@account/x", "abfs://account/x"),
        ("hdfs://nn:8020/user@home/x", "hdfs://nn:8020/user@home/x"),
        ("s3a://lake/user@home/x", "s3a://lake/user@home/x"),
    ],
)
def test_a_uri_is_shown_without_its_secrets(uri, shown):
    """Also in the middle of the text of somebody else's error."""
    assert public(uri) == shown
    assert str(unavailable(uri, f"cannot open {uri}")).count(shown) == 2
    assert not {"KEY", "SECRET"} & set(str(unavailable(uri, f"cannot open {uri}")).replace("/", ":").split(":"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"hadoop_conf": ("hunter2",)}, "--hadoop-conf is not of the form KEY=VALUE."),
        ({"hadoop_conf": ("=hunter2",)}, "--hadoop-conf is not of the form KEY=VALUE."),
        ({"hadoop_conf": ("fs.s3a.secret.key=file:hunter",)}, "give an absolute path"),
        ({"no_jvm": True, "packages": "a:b:1"}, "--no-jvm excludes --hadoop-conf"),
    ],
)
def test_what_cannot_be_meant(given, said):
    """The text that is no setting may be a secret, and is not shown."""
    with pytest.raises(ConfigError, match=said) as refused:
        Reach("s3a://lake/x", {**GIVEN, **given})

    assert "hunter2" not in str(refused.value)


@pytest.mark.usefixtures("no_java")
def test_without_java():
    """The way is pyarrow's, and a reset is refused; settings of Hadoop have no use."""
    reach = Reach("s3a://lake/x", GIVEN)

    assert (reach.through, reach.words) == ("pyarrow", "through pyarrow, without a JVM")
    assert "if no driver runs, add --force" in reach.obstacle
    with pytest.raises(ConfigError, match="need Java"):
        Reach("s3a://lake/x", {**GIVEN, "hadoop_conf": ("fs.s3a.endpoint=x",)})
    with pytest.raises(ConfigError, match="a hdfs: URI cannot be reached without Spark's JVM"):
        Reach("hdfs://nn/x", GIVEN).locate("hdfs://nn/x")


def test_the_flags_of_an_undo_have_no_secret():
    """References are kept, as is what is no secret."""
    conf = ("spark.hadoop.fs.s3a.secret.key=hunter2", "fs.s3a.session.token=env:TOKEN", "fs.s3a.endpoint=http://x")
    reach = Reach("s3a://lake/x", {**GIVEN, "hadoop_conf": conf, "packages": "a:b:1"})

    assert reach.hides_secrets
    assert reach.flags() == [
        *("--hadoop-conf", "fs.s3a.secret.key=***", "--hadoop-conf", "fs.s3a.session.token=env:TOKEN"),
        *("--hadoop-conf", "fs.s3a.endpoint=http://x", "--packages", "a:b:1"),
    ]


@pytest.mark.parametrize(
    "key",
    [
        "fs.azure.account.key.lake.dfs.core.windows.net",
        "fs.azure.sas.container.lake.blob.core.windows.net",
        "fs.azure.account.oauth2.client.secret.lake.dfs.core.windows.net",
        "fs.gs.encryption.key",
        "fs.gs.auth.service.account.private.key.id",
        "fs.gs.auth.service.account.PRIVATE.KEY",
        "fs.s3a.encryption.key",
        "fs.s3a.server-side-encryption.key",
        "fs.s3a.access.key",
        "fs.s3a.secret.key",
        "fs.s3a.session.token",
        "fs.s3a.bucket.lake.access.key",
        "fs.s3a.proxy.password",
        "fs.x.credential.client.id",
        "fs.x.passphrase",
    ],
)
def test_hadoops_keys_are_secret(key):
    """Wherever the word stands in the name. A reference is no secret."""
    literal = Reach("s3a://lake/x", {**GIVEN, "hadoop_conf": (f"{key}=hunter2",)})
    reference = Reach("s3a://lake/x", {**GIVEN, "hadoop_conf": (f"{key}=env:KEY",)})

    assert (literal.hides_secrets, literal.flags()) == (True, ["--hadoop-conf", f"{key}=***"])
    assert (reference.hides_secrets, reference.flags()) == (False, ["--hadoop-conf", f"{key}=env:KEY"])


def test_a_long_wait_is_announced(monkeypatch, capsys):
    """And a short one is not."""
    with talk.telling_if_slow("waiting"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(talk, "SLOW_SECONDS", 0)
    with talk.telling_if_slow("waiting"):
        deadline, said = time.monotonic() + 10, ""
        while not said and time.monotonic() < deadline:
            said = capsys.readouterr().err
    assert said == "waiting\n"


# -- kafka-direct checkpoint forget-code


@pytest.fixture
def checkpoint(tmp_path):
    log = OffsetLog(str(tmp_path), "orders")
    log.plan(Batch(id=0, ranges=(OffsetRange("t", 0, 0, 10),), times=(1000,)))
    (tmp_path / "checkpoint-1000").write_text("")
    return tmp_path


def forget(folder, *arguments):
    return CliRunner().invoke(main, ["checkpoint", "forget-code", "--checkpoint", str(folder), *arguments])


def test_forgetting_is_dry_by_default(checkpoint):
    """It lists the files, and says what is lost with them."""
    done = forget(checkpoint)

    assert (done.exit_code, done.stdout) == (0, "checkpoint-1000\n")
    assert "what windows and states hold is lost" in done.stderr
    assert (checkpoint / "checkpoint-1000").exists()
    assert forget(checkpoint, "--execute").exit_code == 0
    assert not (checkpoint / "checkpoint-1000").exists()
    assert "Nothing to forget" in forget(checkpoint, "--execute").stderr


def test_a_running_driver_keeps_its_program(checkpoint):
    """It would write the files again; --force says that it does not run."""
    OffsetLog(str(checkpoint), "orders").renew(Lease(at_ms=0, valid_ms=60_000))

    assert "--execute would be refused: stream orders in" in forget(checkpoint).stderr
    refused = forget(checkpoint, "--execute")
    assert (refused.exit_code, (checkpoint / "checkpoint-1000").exists()) == (3, True)
    assert "is running" in refused.stderr
    assert forget(checkpoint, "--execute", "--force").exit_code == 0
    assert not (checkpoint / "checkpoint-1000").exists()
