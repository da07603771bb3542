"""A loss says what was wanted, what is there, and what to do."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_direct.offsets import Loss, LossCause, TopicPartition, offsets_lost
from tests.strategies import losses


@pytest.mark.parametrize(
    ("cause", "earliest", "latest", "said"),
    [
        (LossCause.AGED_OUT, 0, 9, "t-3 aged out: wanted offset 5, available offsets 0 to 9"),
        (LossCause.TRUNCATED, 0, 3, "t-3 truncated: wanted offset 5, available offsets 0 to 3"),
        (LossCause.RECREATED, 0, 3, "t-3 topic recreated: wanted offset 5, available offsets 0 to 3"),
        (LossCause.DELETED, None, None, "t-3 partition deleted: wanted offset 5, available nothing"),
    ],
)
def test_text(cause, earliest, latest, said):
    """Topic, partition, wanted and available offsets stand in the text, an earliest of 0 as well."""
    loss = Loss(
        topic_partition=TopicPartition("t", 3), cause=cause, wanted=5, earliest=earliest, latest=latest, resumed=0
    )

    assert str(loss) == said


@settings(max_examples=30)
@given(st.lists(losses, min_size=1, max_size=3))
def test_the_error_names_every_loss_and_survives_pickling(found):
    """The error's text has each loss and the remedy, and its `losses` reach the driver."""
    error = pickle.loads(pickle.dumps(offsets_lost(found, "To continue: look.")))

    assert all(str(loss) in str(error) for loss in found)
    assert str(error).endswith(" To continue: look.")
    assert error.losses == tuple(found)
