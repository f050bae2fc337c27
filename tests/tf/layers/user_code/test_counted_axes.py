"""Expressions that count axes mean those of one frame of a loop."""

from __future__ import annotations

import numpy
import pytest

from returnn.tf.layers.user_code.counted_axes import counts_axes
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences, valid

COUNTED = {
    "source(0)[:, 0]": lambda x: x[..., 0],
    "source(0)[:, :2]": lambda x: x[..., :2],
    "(source(0) * 2.)[:, 1:]": lambda x: 2 * x[..., 1:],
    "tf.reduce_sum(source(0), axis=1)": lambda x: x.sum(-1),
    "tf.reduce_max(source(0), axis=[1])": lambda x: x.max(-1),
    "tf.concat([source(0), source(0)], axis=1)": lambda x: numpy.concatenate([x, x], -1),
}
NOT_COUNTED = [
    "source(0)",
    "source(0)[..., 0]",
    "tf.reduce_sum(source(0), axis=-1)",
    "tf.shape(source(0))[0]",
    "source(0, as_data=True).dims[1]",
    "not an expression",
]


@pytest.mark.parametrize("text", COUNTED)
@pytest.mark.parametrize("move", [False, True])
def test_axes_are_those_of_one_frame(text, move):
    data, lengths = sequences()
    expected = COUNTED[text](data)
    dim = expected.shape[2] if expected.ndim > 2 else None
    out_type = {"dim": dim, "shape": (dim,) if dim else (), "feature_dim_axis": -1 if dim else None}
    layer = {"class": "eval", "eval": text, "from": "data:source", "out_type": out_type}
    unit = {"x": layer, "output": {"class": "copy", "from": "x"}}
    net = {"output": {"class": "rec", "from": "data", "unit": unit, "optimize_move_layers_out": move}}
    found = RecurrentNet(net).run(data, lengths).output
    numpy.testing.assert_allclose(valid(found, lengths), valid(expected, lengths), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("text", [*COUNTED, *NOT_COUNTED])
def test_what_counts_axes(text):
    assert counts_axes(text) == (text in COUNTED)
