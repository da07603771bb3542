"""`Claims`: the newest driver owns a log, and no two have the same epoch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from kafka_direct.errors import CorruptLog, Fenced
from kafka_direct.offsets import OffsetLog
from kafka_direct.offsets.store.claims import (
    KEPT,
    Claim,
    Claims,
    claim_all,
    decode_claim,
    describe_driver,
    encode_claim,
)
from kafka_direct.offsets.store.files import LogFiles
from kafka_direct.offsets.store.local import LocalStore


@pytest.fixture
def claims(tmp_path):
    return Claims(LogFiles(LocalStore(), str(tmp_path)), "orders")


def test_nobody_owns_a_new_log(claims):
    assert claims.newest() is None
    assert claims.caution() is None


def test_the_newest_driver_owns_the_log(claims):
    """The older one is told by whom; the newest may look as often as it likes."""
    older, newer = claim_all([claims], "process 1 of a"), claim_all([claims], "process 2 of b")

    assert (older.epoch, newer.epoch) == (1, 2)
    assert claims.newest() == newer
    claims.require_newest(newer)
    with pytest.raises(Fenced, match="stream orders belongs to another driver now, process 2 of b; ") as fenced:
        claims.require_newest(older)
    assert (fenced.value.owner, fenced.value.epoch) == ("process 2 of b", 1)
    assert claims.written_at(newer) >= claims.written_at(older)


def test_a_claim_that_is_gone_is_an_error(claims, tmp_path):
    """Somebody has removed it: nobody knows any more who is the newest."""
    claim = claim_all([claims], "x")
    (tmp_path / "1").unlink()

    with pytest.raises(CorruptLog, match="the claim of this driver, is missing"):
        claims.require_newest(claim)


def test_old_claims_are_removed(claims, tmp_path):
    """A stream that is started each hour for a year does not list nine thousand files."""
    for number in range(KEPT + 3):
        claim_all([claims], f"{number}")

    assert sorted(int(path.name) for path in tmp_path.iterdir()) == list(range(4, KEPT + 4))


def test_an_epoch_is_taken_once(claims):
    """Also if the answer of the store was lost, a driver knows its own claim again."""
    claim = Claim(epoch=1, owner="a", id="1", log="1")

    assert claims.add(claim)
    assert claims.add(claim)
    assert not claims.add(Claim(epoch=1, owner="a", id="2", log="1"))


def test_an_epoch_below_the_newest_is_no_claim(claims):
    """A driver that was frozen between its two steps must not believe that it owns the log."""
    claims.add(Claim(epoch=5, owner="b", id="2", log="1"))

    assert not claims.add(Claim(epoch=4, owner="a", id="1", log="1"))


def test_drivers_that_start_at_the_same_moment(tmp_path):
    """One of them owns all streams, in every round."""
    barrier = Barrier(4)

    def start(_):
        logs = [Claims(LogFiles(LocalStore(), str(tmp_path / name)), name) for name in ("a", "b", "c")]
        barrier.wait()
        return claim_all(logs, "x")

    with ThreadPoolExecutor(4) as pool:
        for _ in range(25):
            claimed = list(pool.map(start, range(4)))
            newest = [Claims(LogFiles(LocalStore(), str(tmp_path / name)), name).newest() for name in ("a", "b", "c")]

            assert len({claim.epoch for claim in claimed}) == 4
            assert newest == [max(claimed, key=lambda claim: claim.epoch)] * 3


class Inclusive(LocalStore):
    """A store in which the last of two writers wins, as S3 without conditional writes."""

    def create(self, path, text):
        super().replace(path, text)
        return True

    def caution(self, folder):
        return f"{folder} lets two writers create the same file."


def test_where_two_can_have_one_epoch_the_last_one_wins(tmp_path):
    """The one whose claim was overwritten sees it at its next look."""
    first, second = (Claims(LogFiles(Inclusive(), str(tmp_path)), "orders") for _ in range(2))
    assert first.caution() == second.caution() == f"{tmp_path} lets two writers create the same file."
    mine, other = Claim(epoch=1, owner="a", id="1", log="1"), Claim(epoch=1, owner="b", id="2", log="1")

    assert first.add(mine)
    first.require_newest(mine)
    assert second.add(other)
    with pytest.raises(Fenced, match="another driver now, b"):
        first.require_newest(mine)
    second.require_newest(other)


def test_a_claim_survives_its_text():
    claim = Claim(epoch=3, owner=describe_driver("kafka-direct offsets"), id="x", log="1")

    assert decode_claim(encode_claim(claim)) == claim
    assert claim.owner.startswith("kafka-direct offsets, process ")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version":2,"epoch":1,"owner":"a","id":"b"}', "null"])
def test_another_text_is_no_claim(claims, tmp_path, text):
    """The file is named, and what to do."""
    (tmp_path / "1").write_text(text)

    with pytest.raises(CorruptLog, match=r"1 was not written by kafka_direct .* remove it"):
        claims.newest()


def test_a_log_without_a_claim_asks_nobody(tmp_path):
    """Tools may write a log by hand; the batch ids keep two of them apart."""
    log = OffsetLog(str(tmp_path), "orders")
    claim_all([log.claims], "a driver")

    log.require_newest()
