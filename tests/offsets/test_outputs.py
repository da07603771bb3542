"""Where outputs have begun, in the log of their stream."""

import pytest

from kafka_direct.errors import CorruptLog
from kafka_direct.offsets import Batch, OffsetLog, OffsetRange, TopicPartition


def batch(id_, *ranges, **facts):
    return Batch(id=id_, ranges=tuple(OffsetRange(*r) for r in ranges), times=(id_ * 100,), **facts)


def test_a_beginning_lasts(tmp_path):
    """The next driver reads what the one before has noted, in the order of the batches; outputs do not mix."""
    first = batch(9, ("t", 0, 4, 7), topic_ids={"t": "id"})
    later = batch(10, ("t", 1, 0, 1), moved={TopicPartition("t", 1): 50})
    outputs = OffsetLog(str(tmp_path), "s").outputs
    assert outputs.begun("shop/a.b") == []
    outputs.begin("shop/a.b", later)
    outputs.begin("shop/a.b", first)
    outputs.begin("shop/a", first)

    for log in (outputs, OffsetLog(str(tmp_path), "s").outputs):
        assert log.begun("shop/a.b") == [first, later]
        assert log.begun("shop/a") == [first]
        assert log.begun("shop") == []


def test_a_beginning_is_noted_once(tmp_path):
    """A replay begins where the first run did; what was noted stays."""
    first, again = batch(0, ("t", 0, 4, 7)), batch(0, ("t", 0, 4, 7), ("t", 1, 0, 1))
    outputs = OffsetLog(str(tmp_path), "s").outputs
    outputs.begin("o", first)
    outputs.begin("o", again)

    assert outputs.begun("o") == [first]


def test_a_torn_beginning_is_told(tmp_path):
    """It is not taken for a new output."""
    outputs = OffsetLog(str(tmp_path), "s").outputs
    outputs.begin("o", batch(0, ("t", 0, 4, 7)))
    (path,) = (tmp_path / "kafka_direct/s/outputs").iterdir()
    path.write_text("{")

    with pytest.raises(CorruptLog, match=r"o\.0 is torn"):
        OffsetLog(str(tmp_path), "s").outputs.begun("o")


@pytest.mark.parametrize("names", [("ü" * 200, "ü" * 199 + "o"), ("o" * 200, "o" * 199 + "p")])
def test_long_names_are_told_apart(tmp_path, names):
    """A file system allows names of 255 bytes, a sink 200 characters."""
    for number, name in enumerate(names):
        OffsetLog(str(tmp_path), "s").outputs.begin(name, batch(0, ("t", 0, number, 7)))

    found = [OffsetLog(str(tmp_path), "s").outputs.begun(name) for name in names]
    assert found == [[batch(0, ("t", 0, number, 7))] for number in (0, 1)]
