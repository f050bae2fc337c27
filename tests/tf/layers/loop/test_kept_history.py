"""Self-attention on the frames of earlier batches."""

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import RecurrentNet, construct, sequences, tf

ATTENTION = {"class": "self_attention", "num_heads": 2, "total_key_dim": 4, "n_out": 4, "attention_left_only": True}


def loop(unit, **options):
    return {"class": "rec", "from": "data", "unit": unit, **options}


PLACES = {
    "without a loop": lambda **options: {**ATTENTION, "from": "data", **options},
    "moved out": lambda **options: loop({"output": {**ATTENTION, "from": "data:source", **options}}),
    "inside": lambda **options: loop(
        {"output": {**ATTENTION, "from": "data:source", **options}}, optimize_move_layers_out=False
    ),
    "inside, by its own past": lambda **options: loop(
        {
            "in": {"class": "linear", "activation": "tanh", "n_out": 3, "from": ["data:source", "prev:output"]},
            "output": {**ATTENTION, "from": "in", **options},
        }
    ),
}


class KeptNet(RecurrentNet):
    """A network which goes on from batch to batch."""

    def __init__(self, place, **options):
        super().__init__({"output": PLACES[place](**options)})
        with self.graph.as_default():
            self.fetches["keep"] = self.net.get_post_control_dependencies()
            self.epoch_step = self.net.get_epoch_step()

    def step(self, data, lengths, step):
        """:return: valid frames of each sequence"""
        out = self.run(data, lengths, feed={self.epoch_step: step}).output
        return [frames[:n] for frames, n in zip(out, lengths, strict=True)]


def assert_close(a, b):
    numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", ["without a loop", "moved out", "inside"])
@pytest.mark.parametrize("word", ["keep_over_epoch", "keep_over_epoch_no_init"])
def test_sequences_go_on_in_the_next_batch(place, word):
    data, _ = sequences(n_batch=2, max_len=6)
    net = KeptNet(place, initial_state=word)
    # The second sequence has a shorter first part, so it begins its second part one frame earlier.
    second = numpy.stack([data[0, 3:6], data[1, 2:5]])
    parts = [net.step(data[:, :3], [3, 2], 0), net.step(second, [3, 3], 1)]
    whole = RecurrentNet({"output": PLACES[place]()}).run(data, [6, 5]).output
    assert_close(numpy.concatenate([parts[0][0], parts[1][0]]), whole[0])
    assert_close(numpy.concatenate([parts[0][1], parts[1][1]]), whole[1, :5])
    again = net.step(data[:, :3], [3, 2], 0)
    assert numpy.allclose(again[0], parts[0][0]) is (word == "keep_over_epoch")


@pytest.mark.parametrize("place", ["without a loop", "moved out", "inside"])
def test_only_the_frames_of_the_last_batch(place):
    data, _ = sequences(n_batch=2, max_len=6)
    net = KeptNet(place, initial_state="keep_over_epoch", restrict_state_to_last_seq=True)
    for i in range(2):
        net.step(data[:, 2 * i : 2 * i + 2], [2, 2], i)
    last = net.step(data[:, 4:6], [2, 2], 2)
    without_first = RecurrentNet({"output": PLACES[place]()}).run(data[:, 2:], [4, 4]).output
    assert_close(last, without_first[:, 2:])


def test_a_batch_of_another_size_starts_anew():
    data, _ = sequences(n_batch=2, max_len=4)
    net = KeptNet("inside", initial_state="keep_over_epoch")
    net.step(data, [4, 4], 0)
    assert_close(net.step(data[:1], [4], 1), net.step(data[:1], [4], 0))


def test_the_memory_reaches_what_depends_on_its_own_past():
    data, _ = sequences(n_batch=2, max_len=3)
    net = KeptNet("inside, by its own past", initial_state="keep_over_epoch_no_init")
    first, second, third = (net.step(data, [3, 3], i) for i in range(3))
    assert not numpy.allclose(first[0], second[0])
    assert not numpy.allclose(second[0], third[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"restrict_state_to_last_seq": True},
            "layer 'output' (class 'self_attention'): option 'restrict_state_to_last_seq': no state is kept between "
            "batches.\n  For that, 'initial_state' is 'keep_over_epoch' or 'keep_over_epoch_no_init'.",
        ),
        (
            {"initial_state": "keep_over_epoch", "state_var_lengths": lambda: [1, 2]},
            "layer 'output' (class 'self_attention'): option 'state_var_lengths' knows no frames of earlier batches "
            "(initial_state).",
        ),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with tf.Graph().as_default(), pytest.raises(ConfigError) as info:
        construct({"output": PLACES["without a loop"](**options)})
    assert str(info.value) == message
