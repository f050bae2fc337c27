"""The remaining time of a pass."""

import pytest

from returnn.engine.report.pace import Pace


def run(pace, seconds_of_steps, *, faster=1.0, first_s=10.0):
    """:return: after each step, what is left by the pace, and what is; all steps are as much of the pass"""
    pace.begin()
    seconds = [first_s, *(value / faster for value in seconds_of_steps)]
    told = []
    for step in range(len(seconds)):
        frac, now = (step + 1) / len(seconds), sum(seconds[: step + 1])
        pace.add(frac, now)
        told.append((pace.remaining(frac, now), sum(seconds[step + 1 :])))
    return told


def test_first_pass_tells_by_its_steps_but_the_first_one():
    told = run(Pace(), [2.0] * 9)
    assert told[0][0] is None  # there is nothing yet to tell it by
    assert [found for found, _ in told[1:]] == pytest.approx([left for _, left in told[1:]])


@pytest.mark.parametrize("faster", [1.0, 0.5, 2.0])
def test_later_passes_know_that_short_sequences_come_first(faster):
    seconds = [1.0 + 0.1 * step for step in range(100)]  # as with a seq_ordering by length
    pace = Pace()
    first = run(pace, seconds)
    assert first[5][0] < 0.5 * first[5][1]  # by the short ones alone
    told = run(pace, seconds, faster=faster)
    for found, left in told[30:]:
        assert found == pytest.approx(left, rel=0.3, abs=0.1)
    if faster == 1.0:
        assert [found for found, _ in told] == pytest.approx([left for _, left in told], rel=0.02, abs=0.1)


def test_what_little_is_known_at_the_begin_of_the_first_pass_is_said():
    pace = Pace()
    assert pace.is_unsure(0.01)
    assert not pace.is_unsure(0.1)
    run(pace, [1.0] * 20)
    pace.begin()
    assert not pace.is_unsure(0.01)


@pytest.mark.parametrize("points", [
    [(0.5, 1.0), (0.7, 2.0), (1.0, 3.0)], [(0.1, 1.0), (0.2, 2.0), (0.3, 3.0)], [(1.0, 1.0)], [],
], ids=["goes on", "stopped", "one step", "nothing"])  # fmt: skip
def test_parts_of_passes_say_nothing_of_the_next_one(points):
    pace = Pace()
    pace.begin()
    for frac, seconds in points:
        pace.add(frac, seconds)
    pace.begin()
    assert pace.is_unsure(0.01)
    pace.add(0.1, 1.0)
    assert pace.remaining(0.1, 1.0) is None
    assert pace.remaining(1.0, 9.0) == 0.0
