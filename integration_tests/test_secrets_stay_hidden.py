"""Secrets at each front door, and all that a stranger could look at searched for them byte by byte."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from logins import with_callback, with_references

from kafka_direct.testing import LocalKafka, LocalOidc, Security, create_topic, produce

TOKEN = re.compile(rb"eyJ[\w-]{10,}\.eyJ[\w-]{10,}")  # a JWT of whomever
CLIENTS = ("rdkafka#consumer-", "rdkafka#producer-")
STORE_PASSWORD = "store-secret"  # of LocalKafka
PASSWORD, CLIENT_SECRET, WRONG, PLACE = (f"{name}-{uuid4().hex}" for name in ("pw", "client", "wrong", "place"))
PLANTED = {
    "password": PASSWORD,
    "client secret": CLIENT_SECRET,
    "wrong password": WRONG,
    "key password": STORE_PASSWORD,
}


@pytest.fixture(scope="module")
def oidc():
    with LocalOidc() as server:
        yield server


@pytest.fixture(scope="module")
def secured(oidc):
    with LocalKafka(security=Security(users={"alice": PASSWORD}, oidc=oidc)) as kafka:
        yield kafka


def logins(kafka, oidc):
    """Each kind of secret: a password, a JAAS text, a key's password, a client's secret, a token and its text."""
    alice = kafka.certificates.users["alice"]
    bearer = kafka.login("oauthbearer") | {"sasl.oauthbearer.client.secret": CLIENT_SECRET}
    callback = with_callback(kafka.login("oauthbearer"), oidc)
    callback["sasl.oauthbearer.config"] += f"?place={PLACE}"
    text = {key: value for key, value in kafka.login("mtls").items() if key != "ssl.key.location"}
    return {
        "password": kafka.login("scram-sha-256"),
        "jaas": kafka.java_login("scram-sha-512"),
        "key": kafka.login("mtls") | {"ssl.key.location": str(alice.encrypted_key), "ssl.key.password": STORE_PASSWORD},
        "key-text": text | {"ssl.key.pem": alice.key.read_text()},
        "store": kafka.java_login("mtls", store="JKS"),
        "client-secret": bearer,
        "callback": callback,
    }


def wrong_logins(kafka):
    java = kafka.java_login("plain")
    return {
        "password": kafka.login("plain") | {"sasl.password": WRONG},
        "jaas": java | {"sasl.jaas.config": java["sasl.jaas.config"].replace(PASSWORD, WRONG)},
    }


# Each process of Python runs it at its start: the driver, workers, and those of Spark's data sources.
SITE = """
import logging
logging.basicConfig()
logging.getLogger("kafka_direct").setLevel(logging.DEBUG)
"""


def run_job(folder, kafka, oidc, *, is_literal):
    """Run the job, with its secrets in files and a variable, or literal; `folder` has what it leaves behind.

    librdkafka tells all that it does.
    """
    (folder / "seen").mkdir()
    (folder / "secret").mkdir()
    topic, target = create_topic(kafka.direct_servers), create_topic(kafka.direct_servers)
    produce(kafka.direct_servers, topic, ["a", "b", "c"])
    (folder / "secret" / "sitecustomize.py").write_text(SITE)

    def prepared(given):
        return {
            name: (params if is_literal else referring(params)) | {"debug": "all"} for name, params in given.items()
        }

    def referring(params):
        in_variables = {key: value.replace(PASSWORD, "env:PLANTED") for key, value in params.items()}
        return with_references(in_variables, folder / "secret")

    given = {"logins": prepared(logins(kafka, oidc)), "wrong": prepared(wrong_logins(kafka))}
    given |= {"topic": topic, "target": target, "is_literal": is_literal}
    (folder / "given.json").write_text(json.dumps(given))
    with (folder / "seen" / "log").open("wb") as log:
        job = Path(__file__).parent / "secrets_job.py"
        env = os.environ | {"PYTHONPATH": str(folder / "secret"), "PLANTED": PASSWORD}
        done = subprocess.run([sys.executable, job, folder], stdout=log, stderr=log, check=False, timeout=500, env=env)
    said = (folder / "seen" / "log").read_text()
    assert done.returncode == 0, said[-5000:]
    assert all(client in said for client in CLIENTS), said[-5000:]


def found_in(folder, kafka):
    """Where the planted secrets stand: the file, and which secret."""
    planted = {name: re.compile(re.escape(value.encode())) for name, value in PLANTED.items()}
    key = kafka.certificates.users["alice"].key.read_bytes().splitlines()
    planted["private key"] = re.compile(re.escape(key[len(key) // 2]))
    planted |= {"token": TOKEN, "text of oauth_cb": re.compile(PLACE.encode())}
    files = [path for path in (folder / "seen").rglob("*") if path.is_file()]
    assert len(files) > 100
    return sorted(
        (path.relative_to(folder / "seen").as_posix(), name)
        for path in files
        for name, pattern in planted.items()
        if pattern.search(path.read_bytes())
    )


def test_references_stay_references(secured, oidc, tmp_path):
    """No file, text, page, event, pickle or log has a secret that was given as a reference."""
    run_job(tmp_path, secured, oidc, is_literal=False)

    assert found_in(tmp_path, secured) == []


def test_literal_secrets_stay_hidden(secured, oidc, tmp_path):
    """No file, text, page, event or log has a secret that stands in the parameters themselves."""
    run_job(tmp_path, secured, oidc, is_literal=True)

    assert found_in(tmp_path, secured) == []
