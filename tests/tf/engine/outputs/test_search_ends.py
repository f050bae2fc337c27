"""What a search says of hypotheses that are cut, and of scores that are no log probabilities."""

from types import SimpleNamespace

import numpy
import pytest
import tensorflow as tf

from returnn.log import log
from returnn.tf.engine.outputs.search_ends import SearchEnds
from returnn.tf.layers.search.beam import SearchEnd


def said(*batches, **options):
    """
    :param batches: scores and cuts of the best hypotheses, by batch
    :param options: of the choice
    :return: the warnings
    """
    options = {"input_type": "prob", "random_sample_scale": 0.0, "custom_score_combine": None, **options}
    loop = SimpleNamespace(get_absolute_name=lambda: "output", where=lambda: "LOOP")
    choice = SimpleNamespace(where=lambda: "CHOICE", **options)
    with tf.Graph().as_default():
        raw = [SimpleNamespace(raw_tensor=tf.constant(0)) for _ in range(2)]
        network = SimpleNamespace(beams=SimpleNamespace(ends={None: SearchEnd(loop, choice, *raw)}))
        ends = SearchEnds(network)
        with tf.Graph().as_default():
            assert not SearchEnds(network).fetches, "inside of another loop, it is known to no step"
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(log), "print_warning", lambda _, text: found.append(text))
        for scores, cuts in batches:
            ends.count({"best scores/output": numpy.array(scores), "cut/output": numpy.array(cuts)})
        ends.print_warnings()
    return found


def test_hypotheses_that_are_cut_are_counted():
    assert said(([-1.0, -2.0], [False, False]), ([-1.0], [False])) == []
    (warning,) = said(([-1.0, -2.0], [False, True]), ([-1.0], [True]))
    assert warning.startswith("LOOP: 2 of 3 best hypotheses had not ended where 'max_seq_len' does not let them go on")


@pytest.mark.parametrize(
    ("options", "is_said"),
    [
        ({}, True),
        ({"input_type": "log_prob"}, False),  # a language model may be subtracted
        ({"custom_score_combine": max}, False),
    ],
)
def test_scores_above_zero(options, is_said):
    warnings = said(([-1.0, 2.0], [False, False]), ([1e-6], [False]), **options)
    expected = (
        "CHOICE: the scores of 1 of 3 best hypotheses are above 0, so that the source has no probabilities, as 'i"
    )
    assert [text.startswith(expected) for text in warnings] == [True] * is_said


def test_scores_of_samples():
    (warning,) = said(([-1.0, 2.0], [False, False]), random_sample_scale=1.0)
    assert warning.startswith("CHOICE: scores of hypotheses contain the noise of 'random_sample_scale', and are no log")
