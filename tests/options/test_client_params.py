"""kafkaParams: what is accepted, what is refused, and the configurations made of it."""

import functools
import logging
import pickle

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from pyspark import cloudpickle

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets.model.position import Earliest, Latest
from kafka_direct.options.client_params import ClientParams, refuse_literal_secrets

SERVERS = {"bootstrap.servers": "broker:9092"}


def parse(**params):
    """Parse SERVERS and the parameters, whose names have _ for the dots."""
    return ClientParams.parse(SERVERS | {key.replace("_", "."): value for key, value in params.items()})


def sign(_config):
    """Stand for a user's oauth_cb, which must pickle."""


def test_the_callers_dict_is_never_changed():
    """Translating and taking out keys happens in a copy."""
    given = {"metadata.broker.list": "b:1", "group.id": "g", "auto.offset.reset": "smallest", "fetch.max.wait.ms": 1}
    before = dict(given)
    ClientParams.parse(given)

    assert given == before


def test_equal_parameters_are_one_key_of_a_cache():
    """Order does not matter, and consumers may be cached by their parameters."""
    one = ClientParams.parse({"client.id": "x", "bootstrap.servers": "b:1"})
    two = ClientParams.parse({"bootstrap.servers": "b:1", "client.id": "x"})

    assert one == two
    assert {one: 1}[two] == 1


def test_parameters_pickle_with_references_unresolved(monkeypatch):
    """What goes to the workers is the reference; the value is read there."""
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    params = ClientParams.parse(SERVERS | {"sasl.password": "env:KAFKA_PASSWORD", "oauth_cb": sign})
    pickled = cloudpickle.dumps(params)  # Spark's; it takes functions that pickle cannot find by name

    assert b"hunter2" not in pickled
    assert b"env:KAFKA_PASSWORD" in pickled
    assert pickle.loads(pickled).literal_secrets() == ()


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (None, "kafkaParams must be a dict"),
        ("bootstrap.servers=b", "kafkaParams must be a dict"),
        ([("bootstrap.servers", "b:1")], "kafkaParams must be a dict"),
        ({1: "x"}, "keys of kafkaParams are text; 1 is not"),
        (SERVERS | {"client.id": None}, "None, so leave the key out"),
        (SERVERS | {"client.id": ["x"]}, "it is a list"),
        ({"bootstrap.servers": ["b:1"]}, "kafkaParams['bootstrap.servers'] must be text"),
        (SERVERS | {"client.id": print}, "kafkaParams['client.id'] must be text"),
        (SERVERS | {"logger": "log"}, "kafkaParams['logger'] must be a logging.Logger"),
    ],
)
def test_wrong_types_are_refused_as_type_errors(params, said):
    """A wrong type is a TypeError too, as it was in PySpark 2.4, and names the argument."""
    with pytest.raises(ArgumentTypeError) as refused:
        ClientParams.parse(params)

    assert said in str(refused.value)
    assert isinstance(refused.value, TypeError)


@pytest.mark.parametrize("params", [{}, {"bootstrap.servers": ""}, {"bootstrap.servers": " , "}, {"group.id": "g"}])
def test_the_brokers_are_required(params):
    """Without brokers there is nothing to ask."""
    with pytest.raises(ConfigError, match=r"needs bootstrap\.servers; give the brokers as"):
        ClientParams.parse(params)


def test_the_old_name_of_the_brokers_is_accepted():
    """`metadata.broker.list`, which PySpark 2.4 jobs use, means bootstrap.servers."""
    assert ClientParams.parse({"metadata.broker.list": "b:1"}) == ClientParams.parse({"bootstrap.servers": "b:1"})
    assert ClientParams.parse({"metadata.broker.list": "broker:9092"} | SERVERS) == parse()
    with pytest.raises(ConfigError, match="one setting"):
        ClientParams.parse({"metadata.broker.list": "other:1"} | SERVERS)


def test_a_broker_inside_the_client_needs_no_address():
    """The client's own mock cluster, which tests use, has no bootstrap.servers."""
    params = ClientParams.parse({"test.mock.num.brokers": 1})

    assert params.for_admin() == {"test.mock.num.brokers": 1}


def test_numbers_flags_loggers_and_callables_are_values():
    """Values of every documented type arrive; flags arrive as librdkafka spells them."""
    log = logging.getLogger("kafka")
    params = ClientParams.parse(
        SERVERS | {"fetch.min.bytes": 0, "check.crcs": False, "oauth_cb": sign, "logger": log, "client.id": ""}
    )

    resolved = params.resolved()
    assert resolved.pop("oauth_cb").function is sign
    assert resolved == SERVERS | {"fetch.min.bytes": 0, "check.crcs": "false", "logger": log, "client.id": ""}


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("fetch.min.byte", "did you mean fetch.min.bytes?"),
        ("bootstrap_servers", "did you mean bootstrap.servers?"),
        ("Group.Id", "did you mean group.id?"),
        ("kafka.group.id", "write 'group.id'"),
        ("failOnDataLoss", "set spark.streaming.kafka.failOnDataLoss in SparkConf"),
        ("maxRatePerPartition", "keyword argument of that name, or set spark.streaming.kafka.maxRatePerPartition"),
        ("startingOffsets", "option of the kafka_direct data source; here give fromOffsets"),
        ("subscribe", "option of the kafka_direct data source; here give topics"),
        ("spark.streaming.kafka.maxRatePerPartition", "set it in SparkConf"),
        ("zookeeper.connect", "give bootstrap.servers"),
        ("xyzzy", "librdkafka's CONFIGURATION.md"),
    ],
)
def test_unknown_keys_are_refused_with_what_was_meant(key, remedy):
    """A misspelt or misplaced key names the right one, or the right place."""
    with pytest.raises(ConfigError) as refused:
        ClientParams.parse(SERVERS | {key: "hunter2"})

    assert repr(key) in str(refused.value)
    assert remedy in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "reset"),
    [
        ("smallest", Earliest()),
        ("earliest", Earliest()),
        ("beginning", Earliest()),
        ("largest", Latest()),
        ("Latest", Latest()),
        ("end", Latest()),
        ("error", "error"),
        ("none", "error"),
    ],
)
def test_the_reset_is_taken_out_and_parsed(value, reset):
    """`auto.offset.reset` decides the start in the planner, never within a consumer."""
    params = parse(auto_offset_reset=value)

    assert params.auto_offset_reset == reset
    assert params.for_executor()["auto.offset.reset"] == "error"


def test_what_is_not_given_is_none():
    """A reset and a group that are not given are told apart from any that are."""
    assert parse().auto_offset_reset is None
    assert parse().group_id is None
    assert parse().isolation_level == "read_uncommitted"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"auto_offset_reset": "newest"}, "auto.offset.reset is 'newest'; it is one of"),
        ({"isolation_level": "serializable"}, "it is read_uncommitted or read_committed"),
        ({"group_id": ""}, "give the name of the consumer group"),
        ({"group_id": 5}, "give the name of the consumer group"),
        ({"enable_auto_commit": True}, "call stream.commitAsync"),
        ({"enable_auto_commit": "true"}, "call stream.commitAsync"),
        ({"auto_commit_enable": "1"}, "call stream.commitAsync"),
        ({"enable_auto_commit": "perhaps"}, "give true or false"),
        ({"enable_auto_offset_store": True}, "always false here"),
        ({"enable_partition_eof": False}, "always true here"),
        ({"group_id": "env:GROUP"}, "may stand only for a secret"),
    ],
)
def test_what_this_package_decides_cannot_be_set_otherwise(params, said):
    """Keys that are read or owned here are refused with the reason."""
    with pytest.raises(ConfigError) as refused:
        parse(**params)

    assert said in str(refused.value)


def test_what_is_owned_may_be_set_to_what_it_is():
    """Jobs that say what holds anyway keep working."""
    same = {"enable.auto.commit": "False", "enable.partition.eof": True, "enable.auto.offset.store": "f"}

    assert ClientParams.parse(SERVERS | same) == parse()


def test_the_executors_consumer_is_safe_by_configuration():
    """It has its own group, commits nothing, jumps nowhere, sees the ends of ranges and checks what it reads."""
    assert parse(group_id="orders").for_executor() == SERVERS | {
        "group.id": "spark-executor-orders",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": "error",
        "enable.partition.eof": "true",
        "check.crcs": "true",
        "fetch.wait.max.ms": 10,
        "isolation.level": "read_uncommitted",
    }
    assert parse().for_executor()["group.id"] == "spark-executor-kafka-direct"


def test_the_callers_choices_win_over_defaults():
    """Checksums, waiting and isolation are the caller's where given, 0 and false included."""
    executor = parse(check_crcs=False, fetch_wait_max_ms=0, isolation_level="READ_COMMITTED").for_executor()

    assert executor["check.crcs"] == "false"
    assert executor["fetch.wait.max.ms"] == 0
    assert executor["isolation.level"] == "read_committed"


def test_the_committer_has_the_real_group():
    """The driver's committer is of the caller's group, and commits only when told to."""
    group = parse(group_id="orders").for_group()

    assert group["group.id"] == "orders"
    assert group["enable.auto.commit"] == "false"
    with pytest.raises(ConfigError, match=r"set group\.id in kafkaParams"):
        parse().for_group()


def test_a_producer_is_idempotent_and_partitions_as_java_does():
    """Without a word of the caller's nothing is written twice, and a key stays where JVM producers put it."""
    params = parse(group_id="orders", fetch_min_bytes=1, linger_ms=0, partitioner="consistent")

    assert params.for_producer() == SERVERS | {
        "enable.idempotence": "true",
        "partitioner": "consistent",
        "linger.ms": 0,
    }
    assert parse().for_producer()["partitioner"] == "murmur2_random"


@pytest.mark.parametrize(
    ("params", "is_idempotent"),
    [
        ({"acks": 1}, False),
        ({"request_required_acks": "0"}, False),
        ({"acks": "ALL"}, True),
        ({"acks": -1}, True),
        ({"retries": 0}, False),
        ({"message_send_max_retries": "0"}, False),
        ({"retries": 3}, True),
        ({"max_in_flight": 6}, False),
        ({"max_in_flight_requests_per_connection": "5"}, True),
        ({"queuing_strategy": "lifo"}, False),
    ],
)
def test_a_choice_that_excludes_idempotence_wins(params, is_idempotent):
    """As in Java, who asks for acks=1 gets it; each configuration makes a producer."""
    config = parse(**params).for_producer()
    Producer(config)

    assert ("enable.idempotence" in config) is is_idempotent


def test_idempotence_that_is_given_stands():
    """Off is off, and on is not taken back in silence: librdkafka then refuses what does not fit."""
    assert parse(enable_idempotence=False).for_producer()["enable.idempotence"] == "false"
    assert parse(enable_idempotence=True, acks=1).for_producer()["enable.idempotence"] == "true"


@pytest.mark.parametrize("timeout", ["soon", -1, "1" * 5000])
def test_the_timeout_of_transactions_is_a_number(timeout):
    """Told when the sink is made."""
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms is .*; give a whole number from 1 on"):
        parse(transaction_timeout_ms=timeout).for_transactions("t")


def test_deliveries_are_not_the_callers():
    """A function that is never called would be an accident."""
    with pytest.raises(ConfigError, match="on_delivery is set here"):
        ClientParams.parse(SERVERS | {"on_delivery": print}).for_producer()


def test_a_transactional_id_is_not_the_callers():
    """Of producers with one id the brokers let the newest work: many tasks cannot share it."""
    with pytest.raises(ConfigError, match=r"transactional\.id is chosen here"):
        parse(transactional_id="t").for_producer()


def test_no_client_is_given_keys_of_another(capfd):
    """Every configuration makes a client, and librdkafka warns of nothing."""
    params = ClientParams.parse(
        {
            "test.mock.num.brokers": 1,
            "bootstrap.servers": "b:1",
            "group.id": "g",
            "group.instance.id": "i",
            "isolation.level": "read_committed",
            "fetch.min.bytes": 1,
            "acks": "all",
            "linger.ms": 5,
            "client.id": "me",
            "session.timeout.ms": 6000,
        }
    )
    AdminClient(params.for_admin())
    Consumer(params.for_executor()).close()
    Consumer(params.for_group()).close()
    Producer(params.for_producer())

    assert "CONFWARN" not in capfd.readouterr().err
    assert "group.instance.id" not in params.for_executor()
    assert params.for_admin()["client.id"] == "me"


def test_no_text_of_the_parameters_shows_a_secret():
    """repr, str and errors show stars for secrets, references as they are, and callables by name only."""
    params = ClientParams.parse(
        SERVERS
        | {
            "sasl.password": "hunter2",
            "ssl.key.pem": "hunter2",
            "sasl.oauthbearer.config": "hunter2",
            "ssl.key.password": "env:KEY",
            "oauth_cb": functools.partial(sign, "hunter2"),
            "stats_cb": sign,
        }
    )

    for text in (repr(params), str(params), f"{params}"):
        assert "hunter2" not in text
        assert "'sasl.password': '***'" in text
        assert "'ssl.key.password': 'env:KEY'" in text
        assert "<partial>" in text
        assert "<sign>" in text


def test_a_literal_secret_is_refused_for_a_checkpoint():
    """The error names the key and shows the form that keeps the secret out."""
    params = parse(sasl_password="hunter2", sasl_username="alice", ssl_key_password="env:KEY")

    assert params.literal_secrets() == ("sasl.password",)
    with pytest.raises(ConfigError) as refused:
        refuse_literal_secrets(params)
    assert '"sasl.password": "env:NAME"' in str(refused.value)
    assert '"sasl.password": "file:/path"' in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_references_are_no_literal_secrets():
    """A stream whose secrets are references may be checkpointed."""
    refuse_literal_secrets(parse(sasl_password="env:PASSWORD", ssl_key_pem="file:/etc/key.pem"))


def test_every_derived_configuration_is_resolved(monkeypatch, tmp_path):
    """What is handed to the clients has values, each time as they are then."""
    path = tmp_path / "password"
    path.write_text("first\n")
    monkeypatch.setenv("KAFKA_USER", "me")
    login = {"sasl.username": "env:KAFKA_USER", "sasl.password": f"file:{path}"}
    params = ClientParams.parse(SERVERS | login | {"group.id": "g"})

    for config in (params.for_admin(), params.for_executor(), params.for_group(), params.for_producer()):
        assert config["sasl.username"] == "me"
        assert config["sasl.password"] == "first"
    path.write_text("second\n")
    assert params.for_admin()["sasl.password"] == "second"


def test_callers_keys_win_over_preferred_ones():
    """A fetch size in kafkaParams is that of every consumer."""
    executor = parse(fetch_message_max_bytes=7).for_executor({"fetch.message.max.bytes": 8, "queued.min.messages": 1})

    assert (executor["fetch.message.max.bytes"], executor["queued.min.messages"]) == (7, 1)


def test_a_callback_may_be_text():
    """Nothing of it is pickled; it is imported where the client is built."""
    params = ClientParams.parse(SERVERS | {"oauth_cb": f"{__name__}:sign"})

    assert dict(params.entries)["oauth_cb"] == f"{__name__}:sign"
    assert params.for_admin()["oauth_cb"].__name__ == "sign"


@pytest.mark.parametrize("text", ["sign", "shop:", ":sign", "shop.tokens.sign", "shop:sign()", "a b:c", "shop:a.b"])
def test_a_callback_of_another_form_is_refused(text):
    """Before anything is imported."""
    with pytest.raises(ConfigError, match=r"of the form 'package\.module:function'"):
        ClientParams.parse(SERVERS | {"oauth_cb": text})


@pytest.mark.parametrize("text", ["no_such_module:sign", "math:no_such_function", "math:pi"])
def test_a_callback_that_is_not_there_is_named(text):
    """Where the client would be built: the module may be on the executors alone."""
    params = ClientParams.parse(SERVERS | {"oauth_cb": text})

    with pytest.raises(ConfigError, match=f"oauth_cb is '{text}'"):
        params.for_admin()


def test_a_place_is_no_secret_in_the_configuration_of_our_own_logins():
    """A region or a role may stand in a checkpoint; another function's configuration may hold a token."""
    ours = {"oauth_cb": "kafka_direct.login.msk:token", "sasl.oauthbearer.config": "region=eu-west-1"}
    theirs = {"oauth_cb": "shop.tokens:fetch", "sasl.oauthbearer.config": "token=hunter2"}

    assert ClientParams.parse(SERVERS | ours).literal_secrets() == ()
    assert ClientParams.parse(SERVERS | theirs).literal_secrets() == ("sasl.oauthbearer.config",)


def test_a_protocol_before_an_address_is_left_out():
    """As in Java; librdkafka would refuse one that is not that of security.protocol, in its log alone."""
    params = ClientParams.parse({"bootstrap.servers": "PLAINTEXT://a:1, SASL_SSL://b:2,[::1]:3,c"})

    assert params.for_admin()["bootstrap.servers"] == "a:1,b:2,[::1]:3,c"
