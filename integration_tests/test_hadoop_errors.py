"""What an exception of Hadoop's means where Spark SQL runs too."""

import pytest

from kafka_direct.errors import StoreUnavailable
from kafka_direct.hadoop.failure import translated


def test_an_exception_that_pyspark_takes_for_its_own(session):
    """Once there is a session, PySpark makes errors of its own of some of Java's: they are the store's all the same."""
    text = session.sparkContext._jvm.java.lang.Integer

    with pytest.raises(StoreUnavailable, match=r"hdfs://nn/log.*\"no\""), translated("hdfs://nn/log"):
        text.parseInt("no")
