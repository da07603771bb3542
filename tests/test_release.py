"""What is pickled for a worker: read where the package is, where it is not, and where it is another release."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import pytest
from pyspark import cloudpickle

from kafka_direct import release
from kafka_direct.release import VERSION, Stamped, StampedCall

READ = "import pickle, sys; pickle.load(sys.stdin.buffer)"


class Reader(Stamped):
    """As the data source's readers are."""

    def __init__(self, topic):
        self.topic = topic

    def __setstate__(self, state):
        self.__dict__.update(state, has_arrived=True)


def in_bare_python(pickled):
    """The last line of what a Python without any package says to a pickle."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", READ], input=pickled, capture_output=True, check=False)
    return done.stderr.decode().splitlines()[-1]


def test_a_stamped_call_comes_out_as_the_function():
    """Nothing of the stamp is left in the worker."""
    assert pickle.loads(cloudpickle.dumps(StampedCall(len))) is len
    assert StampedCall(max)(1, 2) == 2


def test_a_stamped_object_comes_out_whole():
    """Its state is set as without the stamp."""
    reader = pickle.loads(pickle.dumps(Reader("orders")))

    assert (type(reader), reader.topic, reader.has_arrived) == (Reader, "orders", True)


@pytest.mark.parametrize("what", [Reader("orders"), StampedCall(Reader)])
def test_a_python_without_the_package_says_so(what):
    """One sentence, with the place, the driver's release and the remedy."""
    told = in_bare_python(pickle.dumps(what))

    assert told.startswith("RuntimeError: the Python worker on ")
    assert f"{sys.executable} (Python {sys.version.split()[0]}), has no kafka_direct, and the driver" in told
    assert f"has {VERSION}; give the workers the driver's environment: set PYSPARK_PYTHON" in told


def test_another_release_says_so(monkeypatch):
    """Both releases are named, and nothing of the pickle's contents has been made."""
    pickled = pickle.dumps(Reader("orders"))
    monkeypatch.setattr(release, "VERSION", "0.0.9")

    with pytest.raises(RuntimeError, match=rf"has kafka_direct 0\.0\.9, and the driver .* has {re.escape(VERSION)}; "):
        pickle.loads(pickled)


def test_a_release_that_nobody_knows_is_taken(monkeypatch):
    """Files that were copied without their metadata are not refused."""
    pickled = pickle.dumps(Reader("orders"))
    monkeypatch.setattr(release, "VERSION", None)

    assert pickle.loads(pickled).topic == "orders"
