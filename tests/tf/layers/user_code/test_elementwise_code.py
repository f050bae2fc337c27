"""Which expressions are known to be elementwise, and what is computed of them for hypotheses."""

from __future__ import annotations

import numpy
import pytest

from returnn.tf.layers.user_code.elementwise_code import is_elementwise, is_of_sources_alone
from tests.tf.layers.search.search_net import NUM_LABELS, SearchNet, decoder


@pytest.mark.parametrize("expression", ["source(0) + source(1) * 2", "tf.where(source(0) > 0, tf.exp(source(1)), 0.0)"])
def test_elementwise(expression):
    assert is_elementwise(expression)


@pytest.mark.parametrize(
    "expression",
    ["tf.reduce_sum(source(0))", "source(0)[0]", "source(0, as_data=True)", "f(source(0))", "x y", "(lambda: 1)()"],
)
def test_not_known_to_be_elementwise(expression):
    assert not is_elementwise(expression)


@pytest.mark.parametrize(
    "expression",
    ["source(0) + source(1) * 2", "tf.where(source(0) > 0, tf.exp(source(1)), 0.0)", "-scale * tf.math.log(source(0))"],
)
def test_of_sources_alone(expression):
    assert is_of_sources_alone(expression, ["scale"])


@pytest.mark.parametrize(
    "expression",
    [
        "source(0) * scale",
        "source(0, enforce_batch_major=True)",
        "source(0, False)",
        "source(0) + [1.0, 2.0]",
        "source(0) + self.x",
        "source(0) + output.dims",
        "tf.reduce_sum(source(0))",
        "1 +",
    ],
)
def test_not_of_sources_alone(expression):
    assert not is_of_sources_alone(expression)


EXPRESSION = "tf.tanh(source(0)) * scale + source(1) * source(2)"


def _by_function(source, scale, **_kwargs):
    """The same; it is not known of a function what it does."""
    import tensorflow as tf  # noqa: PLC0415 (as in a config)

    return tf.tanh(source(0)) * scale + source(1) * source(2)


@pytest.mark.parametrize(
    "options", [{}, {"out_type": {"dim": 1, "shape": (None, 1)}}, {"out_type": {"dim": 1}}], ids=str
)
@pytest.mark.parametrize("shrinks", [False, True])
def test_same_with_hypotheses_apart_and_in_the_batch(options, shrinks):
    results, transposes = [], []
    for code in (EXPRESSION, _by_function):
        unit = {
            "energy": {"class": "dot", "from": ["base:data", "s3"], "reduce": "F"},
            "s3": {"class": "linear", "from": "s", "n_out": 3, "activation": None},
            "e": {"class": "expand_dims", "axis": "F", "from": "energy"},
            "weights": {"class": "softmax_over_spatial", "from": "e"},
            "sum": {
                "class": "eval", "eval": code, "eval_locals": {"scale": 0.5},
                "from": ["prev:sum", "weights", "base:fertility"], **options,
            },
            "att": {"class": "generic_attention", "weights": "sum", "base": "base:data"},
            "p": {"class": "softmax", "from": ["s", "att"], "n_out": NUM_LABELS},
        }  # fmt: skip
        fertility = {"class": "linear", "from": "data", "n_out": 1, "activation": "sigmoid"}
        net_dict = {"fertility": fertility, **decoder(max_seq_len="max_len_from('base:data')", unit=unit)}
        net = SearchNet(
            net_dict, fetch=["output", "scores"], search_depends_on_batch=False, search_shrinks_batch=shrinks
        )
        random = numpy.random.RandomState(1)
        data = random.normal(0.0, 1.5, (5, 6, 3)).astype("float32"), numpy.array([6, 3, 1, 5, 4], "int32")
        results.append(net.run(data=data))
        functions = net.graph.as_graph_def().library.function
        transposes.append(sum(node.op == "Transpose" for f in functions for node in f.node_def))
    apart, merged = results
    numpy.testing.assert_array_equal(apart["output"][0], merged["output"][0])
    numpy.testing.assert_allclose(apart["scores"][0], merged["scores"][0], rtol=1e-5)
    assert transposes[0] < transposes[1]
