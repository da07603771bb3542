"""Which questions of Spark show that it waited for a trigger, and of which length."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.rate import TriggerWait

NOON = 1_795_003_200.0  # a multiple of many intervals


class Questions:
    """Asks at times after noon, one after the other, each after a batch of so many records."""

    def __init__(self, target=2.0):
        self.wait = TriggerWait(target_seconds=target)
        self.at = 0.0

    def __call__(self, *times, records=100):
        answers = []
        for at in times:
            answers.append(self.wait.asked(NOON + at, at - self.at, records))
            self.at = at
        return answers


def test_the_clock_shows_a_trigger():
    """A question at a multiple of the time since the last one; a few milliseconds late, as Spark is."""
    ask = Questions()

    assert ask(10.003, 20.001) == [True, True]
    assert (ask.wait.interval, ask.wait.batch_seconds) == (10, 9.5)


def test_batches_that_take_all_of_the_time():
    """Their ends are at no multiples."""
    ask = Questions()

    assert ask(2.13, 4.31, 6.42, 8.67) == [False] * 4
    assert (ask.wait.interval, ask.wait.batch_seconds) == (0, 2)


def test_a_short_wait_after_a_late_batch():
    """Spark asks at the next multiple, and not a whole interval after the late batch."""
    ask = Questions()

    assert ask(10.003, 24.6, 30.002, 40.003) == [True, False, True, True]


def test_a_batch_of_two_intervals_is_late():
    """After more than one interval there was no wait, though its end is a multiple; nor is the trigger longer now."""
    ask = Questions()
    ask(10.0, 20.0)

    assert ask(40.0, 60.0) == [False, False]
    assert ask.wait.interval == 10


def test_a_short_trigger_does_not_matter():
    """Batches will be longer than it; so it is not looked for."""
    ask = Questions()

    assert ask(0.5, 1.0, 1.5) == [False] * 3


def test_records_show_a_trigger():
    """Many more or fewer take the same time, although something delays each question."""
    for records in (200, 40):
        ask = Questions()

        assert ask(6.47, 7.4, records=100) == [False, False]
        assert ask(17.4, records=90) == [False]
        assert ask(27.4, records=records) == [True]
        assert ask(37.4, records=records) == [True]
        assert ask.wait.interval == 10


def test_an_interval_that_is_not_exact():
    """Records show it some hundredths of a second too long; the questions that follow keep it in step."""
    ask = Questions()
    ask(6.47, 7.4, 17.4)

    assert ask(27.43, records=300) == [True]
    assert ask(*(37.4 + 10 * n for n in range(20)), records=300) == [True] * 20


def test_a_batch_that_is_a_little_late_is_no_interval():
    """It does not replace the one that is known, whatever records it had."""
    ask = Questions()
    ask(10.0, 20.0)
    ask(30.05, records=100)
    ask(40.1, records=300)

    assert ask.wait.interval == 10


def test_an_interval_between_two_of_the_grid():
    """Is not taken for one of them, which its questions would soon not meet."""
    ask = Questions()
    multiple = (NOON // 8.2 + 10) * 8.2 - NOON
    ask(multiple - 8.155)

    assert ask(multiple) == [False]


def test_batches_without_more_to_read_show_no_interval():
    """How many arrived says nothing about the sink."""
    ask = Questions()

    assert ask(6.47, 7.4, records=100) == [False, False]
    assert ask(17.4, records=100) == [False]
    assert ask(27.4, 37.4, records=0) == [False, False]


def test_no_two_batches_fit_into_an_interval():
    """One of them would have waited for its end: the interval was chance."""
    ask = Questions()
    ask(10.003)

    assert ask(12.27, 14.43) == [False, False]
    assert ask(20.003) == [False]
    assert ask.wait.interval == 0


def test_chance_does_not_replace_what_is_known():
    """A single batch whose end is at a multiple of its length; twice it is no chance."""
    ask = Questions()
    ask(10.003, 20.003)

    assert ask(24.003, 36.003) == [False, False]  # multiples of four and of twelve seconds, each once
    assert ask.wait.interval == 10
    assert ask(48.003) == [True]
    assert ask.wait.interval == 12


def test_an_interval_that_is_not_met_is_doubted():
    """Batches are short again, so that it shows; and believed again when it does."""
    ask = Questions()
    ask(10.003)
    assert ask.wait.interval == 10
    late = [10.003 + 11.3 * n for n in range(1, 9)]

    assert not any(ask(*late))
    assert (ask.wait.interval, ask.wait.batch_seconds) == (0, 2)
    assert ask(110.003) == [True]
    assert ask.wait.interval == 10


def test_an_interval_that_short_batches_do_not_meet_is_forgotten():
    """It was chance: a later question at one of its multiples is chance too."""
    ask = Questions()
    ask(10.003)
    ask(*(10.003 + 6.37 * n for n in range(1, 17)))
    ask.at = 114.553

    assert ask(120.003) == [False]


@given(
    interval=st.integers(5, 600).map(lambda tenths: tenths / 10),
    target=st.floats(0.5, 20),
    late=st.floats(0, 0.005),
    begin=st.floats(0, 1e6),
)
def test_law_a_trigger_of_the_grid_is_found(interval, target, late, begin):
    """With the second whole interval at the latest, if batches could be as long as it."""
    wait = TriggerWait(target_seconds=min(target, interval))
    first = (NOON + begin) // interval * interval + interval
    wait.asked(first + interval + late, interval + late, 1)

    assert wait.asked(first + 2 * interval, interval - late, 1)
    assert abs(wait.interval - interval) < 1e-6
