"""Energies of attention in a loop: by one operation the same as by those that it takes the place of."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from returnn.tf.frontend_low_level.kernels.native import get_operations
from returnn.tf.frontend_low_level.products import attention_energies
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences, valid, weights_for

OPERATION = "ReturnnAttentionEnergies"


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    if get_operations() is None:
        pytest.skip("there is no compiler")


def decoder(
    *, feedback: bool, query_bias: bool = False, tanh_is_used: bool = False, features: int = 6
) -> dict[str, Any]:
    """:return: a loop over the frames of the source, which attends to all frames of it"""
    linear = {"class": "linear", "activation": None, "with_bias": False, "n_out": features}
    unit = {
        "s": {"class": "rnn_cell", "unit": "lstmblock", "n_out": 5, "from": ["data:source", "prev:att"]},
        "query": {**linear, "with_bias": query_bias, "from": "s"},
        "feedback": {**linear, "from": "prev:sum_weights"},
        "sum": {
            "class": "combine", "kind": "add", "n_out": features,
            "from": ["base:context", *(["feedback"] if feedback else []), "query"],
        },
        "tanh": {"class": "activation", "activation": "tanh", "from": "sum"},
        "energy": {**linear, "n_out": 1, "from": "tanh"},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "sum_weights": {"class": "combine", "kind": "add", "from": ["prev:sum_weights", "weights"]},
        "att": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
        "output": {"class": "copy", "from": ["att", "s"]},
    }  # fmt: skip
    if tanh_is_used:
        unit["mean"] = {"class": "reduce", "mode": "mean", "axis": "T", "from": "tanh"}
        unit["output"]["from"] = ["att", "s", "mean"]
    return {
        "encoder": {"class": "linear", "activation": None, "n_out": 4, "from": "data"},
        "context": {"class": "linear", "activation": None, "n_out": features, "from": "encoder"},
        "output": {"class": "rec", "from": "data", "unit": unit},
    }


def operations_in_loops(net: RecurrentNet) -> list[str]:
    """:return: their types"""
    library = net.graph.as_graph_def().library.function
    return [node.op for function in library for node in function.node_def]


@pytest.mark.parametrize(
    "options",
    [{"feedback": True}, {"feedback": False}, {"feedback": True, "query_bias": True, "tanh_is_used": True}],
    ids=str,
)
def test_same_as_other_operations(monkeypatch: pytest.MonkeyPatch, options: dict[str, bool]) -> None:
    data, lengths = sequences(max_len=4)
    both = []
    for is_fused in (True, False):
        if not is_fused:
            monkeypatch.setattr(attention_energies, "is_in_loop", lambda: False)
        net = RecurrentNet(decoder(**options), with_grads=True, train=True)
        assert (OPERATION in operations_in_loops(net)) == is_fused
        both.append(net.run(data, lengths, weights=weights_for(lengths, 4, net.net.get_layer("output").output.dim)))
    numpy.testing.assert_allclose(valid(both[0].output, lengths), valid(both[1].output, lengths), atol=1e-6)
    assert "context/W" in both[0].grads
    assert set(both[0].grads) == set(both[1].grads)
    for name, value in both[0].grads.items():
        numpy.testing.assert_allclose(value, both[1].grads[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_more_terms_and_scalars_as_queries_are_left_to_other_operations() -> None:
    net_dict = decoder(feedback=True)
    unit = net_dict["output"]["unit"]
    unit["sum"]["from"] = [*unit["sum"]["from"], "base:context"]
    assert OPERATION not in operations_in_loops(RecurrentNet(net_dict))
    net_dict = decoder(feedback=False)
    net_dict["output"]["unit"]["s"]["n_out"] = 1
    net = RecurrentNet(net_dict)
    data, lengths = sequences(max_len=4)
    assert numpy.isfinite(valid(net.run(data, lengths).output, lengths)).all()
