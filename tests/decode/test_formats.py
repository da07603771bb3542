"""The formats that the option valueFormat names."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from kafka_direct.decode import formats
from kafka_direct.errors import ConfigError
from kafka_direct.sql.projection import Projection

STRUCT = StructType([StructField("value", StructType([StructField("id", LongType())]))])


def test_examples_are_true():
    """Every doctest of the module gives what it shows."""
    assert doctest.testmod(formats).failed == 0


@pytest.mark.pyspark("4.0")
def test_a_format_makes_the_types_that_it_decodes():
    """JSON makes structs; without a format a value is fetched as it is declared."""
    batch = pa.RecordBatch.from_arrays([pa.array([b'{"id": 7}'])], names=["value"])

    (made,) = Projection.of(STRUCT, value_format="json").apply([batch])

    assert made.to_pylist() == [{"value": {"id": 7}}]
    with pytest.raises(ConfigError, match="set the option valueFormat to json"):
        Projection.of(STRUCT)


@pytest.mark.pyspark("4.0")
def test_a_new_format_is_a_row(monkeypatch):
    """Nothing else has to know it: the projection finds what it makes, and how."""
    length = formats.Format(
        pa.types.is_struct, lambda _: None, lambda array, kind: pa.array([{"id": len(array)}], kind)
    )
    monkeypatch.setitem(formats.FORMATS, "length", length)
    batch = pa.RecordBatch.from_arrays([pa.array([b"abc"])], names=["value"])

    (made,) = Projection.of(STRUCT, value_format="length").apply([batch])

    assert made.to_pylist() == [{"value": {"id": 1}}]
