"""In a search, code of users finds the sources of a layer as it gets them: batch and hypotheses are one axis."""

import numpy
import tensorflow as tf

from tests.tf.layers.search.search_net import NUM_LABELS, SearchNet, decoder, inputs


def test_sources_of_the_layer_look_like_those_that_are_given():
    seen = []

    def of_layer(source, self, **_):
        state, context, frames = (x.output for x in self.sources)
        assert state.batch_shape == source(0, as_data=True).batch_shape
        lengths = frames.get_sequence_lengths()
        sums = tf.reduce_sum(frames.copy_masked(0.0).copy_as_batch_major().placeholder, axis=1)
        seen.append((state.batch_shape, context.batch_shape, lengths.shape.as_list(), self.output.batch_shape))
        return state.placeholder + context.placeholder[:, :1] + sums[:, :1] / tf.cast(lengths, tf.float32)[:, None]

    def of_source(source, **_):
        return source(0, auto_convert=False) + 2 * source(1, auto_convert=False)[:, :1]  # the mean of frames

    found = []
    for function in (of_layer, of_source):
        code = {"class": "eval", "eval": function, "out_type": {"dim": 4, "shape": (4,)}}
        code["from"] = ["s", "base:ctx", "base:data"] if function is of_layer else ["s", "base:ctx"]
        unit = {"code": code, "p": {"class": "softmax", "from": "code", "n_out": NUM_LABELS}}
        net = SearchNet(decoder(unit=unit), fetch=("output", "scores"))
        found.append(net.run(data=inputs(n_batch=4)))
    assert seen == [((None, 4), (None, 3), [None], (None, 4))]
    for name, (value, _) in found[0].items():
        numpy.testing.assert_allclose(value, found[1][name][0], rtol=1e-4)
