"""Secrets in `connect`: whatever cloudpickle would write into a checkpoint is found, and nothing else is refused."""

import functools
import os
import pickle
import sqlite3
import types
from dataclasses import dataclass

import pytest
from pyspark.serializers import CloudPickleSerializer

from kafka_direct.errors import ConfigError
from kafka_direct.sinks import SqlSink
from kafka_direct.sinks.sql.literal_secret import refuse_secrets_in

HUNTER = "hunter2"
PLACE = "dbname=shop"


def driver(*arguments, **options):
    """Stands for a DB-API module's connect."""


@dataclass
class Opener:
    """A callable object with attributes, as users write them."""

    password: str
    address: str = "db"

    def __call__(self):
        return driver(self.address, self.password)

    def connect(self):
        return driver(self.address, self.password)


@dataclass(slots=True)
class Slotted:
    token: str

    def __call__(self):
        return driver(self.token)


class Careful:
    """Its pickle has no password."""

    def __init__(self):
        self.password = HUNTER

    def __getstate__(self):
        return {}

    def __call__(self):
        return driver()


def closure():
    password = HUNTER
    return lambda: driver(password=password)


def nested_closure():
    options = {"host": "db", "auth": [{"password": HUNTER}]}

    def options_of():
        return options

    return lambda: driver(**options_of())


def local_variable():
    def connect():
        pw = HUNTER
        db_password = "hunter2"
        return driver(pw, db_password)

    return connect


def renamed_variable():
    def connect():
        word = "hunter2"
        return driver("db", 5432, password=word)

    return connect


def inner_function():
    def connect():
        def open_it():
            return driver(user="u", passwd="hunter2", db="shop")

        return open_it()

    return connect


def dictionary():
    def connect():
        options = {"host": "db", "password": "hunter2", "port": 5}
        return driver(**options)

    return connect


def small_dictionary():
    def connect():
        options = {"password": "hunter2"}
        return driver(**options)

    return connect


def stored_key():
    def connect():
        options = {"host": "db"}
        options["token"] = "hunter2"
        return driver(**options)

    return connect


def of_main(function, **names):
    """The function as if the job's own script had it."""
    copy = types.FunctionType(function.__code__, {**globals(), **names}, function.__name__)
    copy.__module__ = "__main__"
    return copy


def by_global():
    return driver(password=HUNTER)


def by_named_global():
    return driver("db", DB_PASSWORD)  # noqa: F821


def by_other_function():
    return opened()  # noqa: F821


SECRETS = {
    "keyword": lambda: driver(host="db", password="hunter2", dbname="shop"),
    "last keyword": lambda: driver("db", passwd="hunter2"),
    "keyword among calls": lambda: driver(host=os.environ.get("HOST", "db"), pwd="hunter2", port=int("5") + 1),
    "bytes": lambda: driver(password=b"hunter2"),
    "dsn": lambda: driver("dbname=shop password=hunter2 host=db"),
    "quoted dsn": lambda: driver("dbname=shop password='hunter 2'"),
    "odbc": lambda: driver("DRIVER={x};UID=sa;PWD=hunter2;"),
    "url": lambda: driver("postgresql://shop:hunter2@db/shop"),
    "url query": lambda: driver("postgresql://db/shop?user=a&sslpassword=hunter2"),
    "f-string": lambda: driver(f"password=hunter2 host={PLACE}"),
    "default": lambda password="hunter2": driver(password),
    "keyword default": lambda *, db_token="hunter2": driver(db_token),
    "default dsn": lambda dsn="password=hunter2": driver(dsn),
    "closure": closure(),
    "nested closure": nested_closure(),
    "local variable": local_variable(),
    "renamed variable": renamed_variable(),
    "inner function": inner_function(),
    "dictionary": dictionary(),
    "small dictionary": small_dictionary(),
    "stored key": stored_key(),
    "partial": functools.partial(driver, password="hunter2"),
    "partial dsn": functools.partial(driver, "password=hunter2"),
    "partial of a lambda": functools.partial(lambda secret: driver(secret, 5), secret="hunter2"),
    "lambda's global": lambda: driver(password=HUNTER),
    "main's global": of_main(by_global),
    "main's named global": of_main(by_named_global, DB_PASSWORD="hunter2"),
    "main's other function": of_main(by_other_function, opened=of_main(by_global)),
    "object": Opener(password="hunter2"),
    "object's dsn": Opener(password=None, address="mysql://u:hunter2@db"),
    "slots": Slotted("hunter2"),
    "method": Opener(password="hunter2").connect,
}


def from_environment():
    """Docs may say postgresql://user:password@host and password=hunter2."""
    password = os.environ["PGPASSWORD"]
    options = {"password": os.environ.get("PGPASSWORD"), "host": "db"}
    options["password"] = os.environ["PGPASSWORD"]
    return driver(password=password, **options)


def documented():
    def connect():
        """As in driver("password=hunter2")."""
        return driver(password=os.environ["PGPASSWORD"])

    return connect


FINE = {
    "environment": lambda: driver(host="db", password=os.environ["PGPASSWORD"], dbname="shop"),
    "several": of_main(from_environment),
    "documented": documented(),
    "get": lambda: driver(password=os.environ.get("PGPASSWORD")),
    "dsn": lambda: driver("dbname=shop host=db user=me"),
    "f-string": lambda: driver(f"dbname=shop password={os.environ['PGPASSWORD']} host=db"),
    "format": lambda: driver("password={} host={}".format(os.environ["PGPASSWORD"], "db")),
    "percent": lambda: driver("password=%s host=%s" % (os.environ["PGPASSWORD"], "db")),  # noqa: UP031
    "url": lambda: driver("postgresql://me@db:5432/shop"),
    "url to fill": lambda: driver(f"postgresql://me:{os.environ['PGPASSWORD']}@db/shop"),
    "none": lambda: driver(password=None),
    "empty": lambda: driver(password="", passwd=b""),
    "parameter": lambda password=None: driver(password=password),
    "file": lambda: driver(passfile="/run/secrets/pg", password_file="/run/secrets/pg", token_url="https://login"),
    "name of a variable": lambda token="PATH": driver(os.environ[token]),
    "reference": functools.partial(driver, password="env:PGPASSWORD"),
    "importable": by_global,
    "importable method": sqlite3.connect,
    "careful object": Careful(),
    "partial": functools.partial(sqlite3.connect, "results.db"),
    "object": Opener(password=None),
    "sql": lambda: driver("SELECT 1 WHERE token = 5").execute("SET password = ?"),
}


@pytest.mark.parametrize("form", SECRETS)
def test_a_secret_that_would_be_written_is_refused(form):
    """Whatever form it has: and it is in the pickle indeed. The error names the place, not the secret."""
    assert b"hunter" in CloudPickleSerializer().dumps(SECRETS[form])
    with pytest.raises(
        ConfigError, match=r"connect holds a secret \(.*\), and .*; read it where .*=os.environ"
    ) as refused:
        refuse_secrets_in(SECRETS[form], "connect")
    assert "hunter" not in str(refused.value)


@pytest.mark.parametrize("form", FINE)
def test_what_holds_no_secret_is_fine(form):
    """A false alarm would stop a job that does the right thing."""
    refuse_secrets_in(FINE[form], "connect")


def test_a_function_that_refers_to_itself_is_searched_once():
    """And a variable that is not set yet is none."""

    def connect():
        return connect() or later

    refuse_secrets_in(connect, "connect")
    later = None


def test_a_checkpoint_of_a_sink_with_a_secret_is_refused():
    """The sink is what Spark's checkpoint holds; workers get its store, which goes over the network only."""
    sink = SqlSink(lambda: driver(password="hunter2"), "orders")

    with pytest.raises(pickle.PicklingError, match="ConfigError: connect holds a secret"):
        CloudPickleSerializer().dumps(lambda rdd: sink.save(rdd, print))
    assert CloudPickleSerializer().loads(CloudPickleSerializer().dumps(sink.store)).name == "orders"
    assert pickle.loads(pickle.dumps(SqlSink(list, "orders"))).store.name == "orders"
